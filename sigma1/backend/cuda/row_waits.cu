#include <algorithm>

#include "sigma1/backend/cuda/row_plan.cuh"

namespace sigma1::cuda {
namespace {

// What steps do to shared memory between two barriers.
class Traffic {
 public:
  explicit Traffic(int rows) : rows_(rows) {}

  void read(const Slot& slot) { add(reads_, slot); }
  void write(const Slot& slot) { add(writes_, slot); }

  bool must_follow(const Traffic& other) const {
    return overlap(reads_, other.writes_) || overlap(writes_, other.writes_) ||
           overlap(writes_, other.reads_);
  }

  void add(const Traffic& other) {
    reads_.insert(reads_.end(), other.reads_.begin(), other.reads_.end());
    writes_.insert(writes_.end(), other.writes_.begin(), other.writes_.end());
  }

 private:
  struct Range {
    int begin, end;
  };

  void add(std::vector<Range>& to, const Slot& slot) const {
    if (slot.offset >= 0) to.push_back({slot.offset, slot.offset + slot.stride * 2 * rows_});
  }

  static bool overlap(const std::vector<Range>& some, const std::vector<Range>& others) {
    return std::ranges::any_of(some, [&](const Range& a) {
      return std::ranges::any_of(
          others, [&](const Range& b) { return a.begin < b.end && b.begin < a.end; });
    });
  }

  int rows_;
  std::vector<Range> reads_, writes_;
};

Traffic traffic_of(const RowPlan& plan, const RowStep& step) {
  Traffic traffic(plan.rows_of_block);
  traffic.read(step.x);
  traffic.read(step.dy);
  traffic.write(step.out.slot);
  for (int i = 0; i < step.instructions; ++i) {
    const RowInstruction& each = plan.instructions[static_cast<size_t>(step.first_instruction + i)];
    traffic.read(each.x);
    traffic.read(each.y);
    traffic.write(each.out.slot);
  }
  return traffic;
}

}  // namespace

// Within a step threads have numbers of their own, but for what a product multiplies, whose place
// nothing takes.
void set_waits(RowPlan& plan) {
  Traffic since(plan.rows_of_block);
  for (RowStep& step : plan.steps) {
    Traffic own = traffic_of(plan, step);
    step.waits = own.must_follow(since);
    if (step.waits) since = Traffic(plan.rows_of_block);
    since.add(own);
  }
}

}  // namespace sigma1::cuda
