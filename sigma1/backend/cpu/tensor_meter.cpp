#include "sigma1/backend/cpu/tensor_meter.h"

#include <utility>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {
namespace {

// Piece by piece on all threads, and then summed in their order: Total has add(span) and
// add(Total).
template <class Total, class... Arguments>
Total measure(const Buffer& buffer, const Arguments&... arguments) {
  constexpr size_t kPiece = 1 << 16;
  auto count = static_cast<size_t>(buffer.count());
  std::vector<Total> pieces((count + kPiece - 1) / kPiece);
  parallel_for(count, kPiece, [&](size_t begin, size_t end) {
    auto size = static_cast<int64_t>(end - begin);
    float* room = buffer.is_fp32() ? nullptr : thread_room(end - begin);
    const float* values = load(buffer, static_cast<int64_t>(begin), size, room);
    pieces[begin / kPiece].add(std::span(values, end - begin), arguments...);
  });
  Total total;
  for (const Total& piece : pieces) total.add(piece);
  return total;
}

class CpuMeter : public TensorMeter {
 public:
  void look_at(const Buffer& buffer, const FormatLimits& limits, float fit_to) override {
    TensorFindings& found = found_.emplace_back();
    found.stats = measure<TensorStats>(buffer);
    bool fits = fit_to > 0 && found.stats.abs_max > 0;
    found.loss =
        measure<FormatLoss>(buffer, fits ? limits.times(found.stats.abs_max / fit_to) : limits);
  }
  std::vector<TensorFindings> take() override { return std::exchange(found_, {}); }

 private:
  std::vector<TensorFindings> found_;
};

}  // namespace

std::unique_ptr<TensorMeter> make_meter() { return std::make_unique<CpuMeter>(); }

}  // namespace sigma1::cpu
