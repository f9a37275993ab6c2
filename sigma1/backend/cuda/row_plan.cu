#include "sigma1/backend/cuda/row_plan.cuh"

#include <algorithm>
#include <array>

#include "sigma1/backend/cuda/builder.cuh"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/row_chain.cuh"
#include "sigma1/backend/cuda/row_local.cuh"
#include "sigma1/backend/cuda/row_places.cuh"
#include "sigma1/ops/norm.h"

namespace sigma1::cuda {
namespace {

class Planner {
 public:
  Planner(std::span<const ChainStep> steps, int rows_of_block) : steps_(steps) {
    plan_.rows_of_block = rows_of_block;
    plan_.rows = steps.front().launch.out().count() / width_of(steps.front().launch.out());
  }

  std::optional<RowPlan> plan() {
    if (!go_together()) return std::nullopt;
    find_last_uses();
    for (size_t s = 0; s < steps_.size(); ++s) load_rows(s);
    for (size_t s = 0; s < steps_.size(); ++s) load_vectors(s);
    for (size_t s = 0; s < steps_.size(); ++s) append(s);
    // Copies of rows are not waited for while vectors are read.
    std::ranges::stable_partition(plan_.copies, std::identity{}, &RowCopy::by_row);
    plan_.room = places_.room();
    set_waits(plan_);
    plan_.type = common_type(steps_);
    return std::move(plan_);
  }

 private:
  struct Loaded {
    const Buffer* buffer;
    size_t last;
    Slot slot;
  };

  bool go_together() const {
    for (const ChainStep& each : steps_) {
      const Launch& launch = each.launch;
      if (launch.out().count() / width_of(launch.out()) != plan_.rows) return false;
      for (size_t i = 0; i < launch.inputs.size(); ++i) {
        bool by_row = is_row_input(*each.op, i, launch.inputs.size());
        if (!by_row && producer(each, i) >= 0) return false;
      }
    }
    return true;
  }

  static int producer(const ChainStep& step, size_t i) {
    return step.producer.empty() ? -1 : step.producer[i];
  }

  // What the thread computed last.
  bool is_at_hand(size_t s, size_t i) const {
    return joins(steps_, s) && producer(steps_[s], i) + 1 == static_cast<int>(s);
  }

  void find_last_uses() {
    last_use_.assign(steps_.size(), 0);
    outputs_.resize(steps_.size());
    vectors_.resize(steps_.size());
    for (size_t s = 0; s < steps_.size(); ++s) {
      for (size_t i = 0; i < steps_[s].launch.inputs.size(); ++i) {
        int from = producer(steps_[s], i);
        if (from >= 0 && !is_at_hand(s, i)) last_use_[static_cast<size_t>(from)] = s;
      }
    }
    for (size_t s = 0; s < steps_.size(); ++s) count_loads(s);
  }

  // A tensor that several steps read is loaded once, where its address is known.
  void count_loads(size_t s) {
    const ChainStep& step = steps_[s];
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      bool by_row = is_row_input(*step.op, i, step.launch.inputs.size());
      if (!by_row || producer(step, i) >= 0) continue;
      if (Loaded* same = find_loaded(step.launch.in(i))) {
        same->last = s;
      } else {
        loaded_.push_back({&step.launch.in(i), s, {}});
      }
    }
  }

  Loaded* find_loaded(const Buffer& buffer) {
    auto found = std::ranges::find_if(loaded_, [&](const Loaded& each) {
      bool same_memory = each.buffer->data == buffer.data && each.buffer->codec == buffer.codec &&
                         each.buffer->shape.back() == buffer.shape.back();
      return each.buffer == &buffer || (buffer.data != nullptr && same_memory);
    });
    return found == loaded_.end() ? nullptr : &*found;
  }

  // What no step before has loaded.
  void load_rows(size_t s) {
    const ChainStep& step = steps_[s];
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      bool by_row = is_row_input(*step.op, i, step.launch.inputs.size());
      if (!by_row || producer(step, i) >= 0) continue;
      Loaded& loaded = *find_loaded(step.launch.in(i));
      if (loaded.slot.offset == Slot::kNone) load_rows(loaded);
    }
  }

  // All are there from the start.
  void load_vectors(size_t s) {
    const ChainStep& step = steps_[s];
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      bool is_matrix = is_product(*step.op) && i == 1;
      if (is_matrix || is_row_input(*step.op, i, step.launch.inputs.size())) continue;
      vectors_[s][i] = load_vector(step.launch.in(i));
    }
  }

  void load_rows(Loaded& loaded) {
    const Buffer& buffer = *loaded.buffer;
    loaded.slot = slot_for(buffer);
    loaded.slot.offset = places_.take(bytes_of(loaded.slot), loaded.last);
    RowCopy copy = copy_of(buffer);
    copy.offset = loaded.slot.offset;
    copy.stride = loaded.slot.stride * 2;
    plan_.copies.push_back(copy);
  }

  RowVector load_vector(const Buffer& buffer) {
    RowCopy copy = copy_of(buffer);
    copy.by_row = false;
    int width = copy.width, first = places_.take(width * 4, steps_.size());
    auto bytes = static_cast<int>(buffer.codec ? buffer.codec->bytes() : 4);
    for (int column = 0; column < width; column += kVectorPiece) {
      copy.width = std::min(kVectorPiece, width - column);
      copy.offset = first + column * 4;
      if (buffer.data != nullptr) copy.from = buffer.data + column * bytes;
      plan_.copies.push_back(copy);
    }
    return {first};
  }

  static RowCopy copy_of(const Buffer& buffer) {
    RowCopy copy;
    copy.from = buffer.data;
    copy.type = *plain_type(buffer);
    copy.width = static_cast<int>(width_of(buffer));
    return copy;
  }

  static Slot slot_for(const Buffer& buffer) {
    return {0, static_cast<int>(width_of(buffer)) + 8, plain_type(buffer) == Type::bf16};
  }
  int bytes_of(const Slot& slot) const { return slot.stride * 2 * plan_.rows_of_block; }

  Slot input_slot(size_t s, size_t i) {
    int from = producer(steps_[s], i);
    if (from >= 0) return outputs_[static_cast<size_t>(from)];
    return find_loaded(steps_[s].launch.in(i))->slot;
  }

  // But for what a product multiplies, a thread has read what it overwrites: a result may take the
  // place of an input that nobody reads any more.
  std::optional<int> place_of_input(size_t s, int bytes) {
    const ChainStep& step = steps_[s];
    if (is_product(*step.op)) return std::nullopt;
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      if (!is_row_input(*step.op, i, step.launch.inputs.size()) || is_at_hand(s, i)) continue;
      Slot slot = input_slot(s, i);
      bool joins_product = joins(steps_, s) && plan_.steps.back().op == RowOp::product;
      if (joins_product && plan_.steps.back().x.offset == slot.offset) continue;
      if (places_.pass_on(slot.offset, bytes, s, last_use_[s])) return slot.offset;
    }
    return std::nullopt;
  }

  RowResult result_of(size_t s) {
    const Buffer& out = steps_[s].launch.out();
    View view = view_of(out);
    RowResult result;
    result.memory = out.data;
    result.type = view.type;
    result.saturates = view.saturates;
    result.width = static_cast<int>(width_of(out));
    places_.free_before(first_joined_);
    if (last_use_[s] == 0) return result;
    result.slot = slot_for(out);
    int bytes = bytes_of(result.slot);
    std::optional<int> place = place_of_input(s, bytes);
    result.slot.offset = place ? *place : places_.take(bytes, last_use_[s]);
    outputs_[s] = result.slot;
    return result;
  }

  void append(size_t s) {
    const ChainStep& step = steps_[s];
    bool is_pointwise = !is_product(*step.op) && !is_norm(*step.op) && !is_norm_grad(*step.op);
    if (!joins(steps_, s)) {
      first_joined_ = s;
      RowStep next;
      next.op = RowOp::pointwise;
      next.factor = step.launch.factor();
      next.first_instruction = static_cast<int>(plan_.instructions.size());
      if (is_product(*step.op)) set_product(next, s);
      if (is_norm(*step.op) || is_norm_grad(*step.op)) set_norm(next, s);
      if (is_pointwise) next.out.width = static_cast<int>(width_of(step.launch.out()));
      if (!is_pointwise) next.out = result_of(s);
      plan_.steps.push_back(next);
    }
    if (is_pointwise) append_pointwise(s);
  }

  void set_product(RowStep& next, size_t s) {
    const Launch& launch = steps_[s].launch;
    next.op = RowOp::product;
    next.x = input_slot(s, 0);
    next.matrix = launch.in(1).data;
    next.depth = static_cast<int>(width_of(launch.in(0)));
    next.bias = vectors_[s][2];
    next.transposed = launch.attributes.get_or("transpose_right", false);
  }

  void set_norm(RowStep& next, size_t s) {
    const OpDef& op = *steps_[s].op;
    const Launch& launch = steps_[s].launch;
    bool is_grad = is_norm_grad(op);
    next.op = is_grad ? RowOp::norm_grad : RowOp::norm;
    next.x = input_slot(s, 0);
    next.centred = &op == &layer_norm_op || &op == &layer_norm_grad_op;
    next.eps = static_cast<float>(launch.attr<double>("eps"));
    if (is_grad) next.dy = input_slot(s, launch.inputs.size() - 1);
    next.weights = vectors_[s][1];
    next.bias = vectors_[s][2];
  }

  // Instructions of one step name its inputs, or what the one before left.
  void append_pointwise(size_t s) {
    constexpr int kFirstInput = 1000;
    ChainStep step = steps_[s];
    std::array<int, kMostInstructions + 1> inputs{};
    step.producer.resize(step.launch.inputs.size());
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      inputs[i] = kFirstInput + static_cast<int>(i);
      step.producer[i] = static_cast<int>(i);
    }
    Builder builder;
    builder.append(step, inputs, 0);
    auto operand = [&](const Operand& from) {
      if (from.instruction == Operand::kNone) return Slot{};
      auto i = static_cast<size_t>(std::max(0, from.instruction - kFirstInput));
      bool is_inner = from.instruction < kFirstInput;
      return is_inner || is_at_hand(s, i) ? Slot{.offset = Slot::kPrevious} : input_slot(s, i);
    };
    for (int i = 0; i < builder.code.count; ++i) {
      const Instruction& each = builder.code.instructions[i];
      const Parameters& p = each.parameters;
      plan_.instructions.emplace_back() = {each.opcode,     p.factor,        p.multiplier, p.second,
                                           operand(each.x), operand(each.y), false,        {}};
    }
    plan_.instructions.back().ends = true;
    plan_.instructions.back().out = result_of(s);
    plan_.steps.back().instructions += builder.code.count;
  }

  std::span<const ChainStep> steps_;
  RowPlan plan_;
  size_t first_joined_ = 0;       // of the steps that are one in the plan
  std::vector<size_t> last_use_;  // of each step's output; 0: none
  std::vector<Slot> outputs_;
  std::vector<std::array<RowVector, 3>> vectors_;  // of each step's inputs that are vectors
  std::vector<Loaded> loaded_;
  RowPlaces places_;
};

}  // namespace

std::optional<RowPlan> plan_rows(std::span<const ChainStep> steps, int rows_of_block) {
  if (steps.empty()) return std::nullopt;
  std::optional<RowPlan> plan = Planner(steps, rows_of_block).plan();
  bool fits = plan && plan->shared_bytes() <= kMostShared && plan->products() <= kMostProducts;
  return fits ? plan : std::nullopt;
}

bool fits_rows(std::span<const ChainStep> steps, int rows_of_block) {
  return plan_rows(steps, rows_of_block).has_value();
}

}  // namespace sigma1::cuda
