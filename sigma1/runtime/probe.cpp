#include "sigma1/runtime/probe.h"

#include <algorithm>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/backend/device.h"
#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/runtime/store.h"

namespace sigma1 {
namespace {

constexpr std::string_view kRoleNames[] = {"activation", "weight", "gradx", "gradw"};

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// Piece by piece on all threads, and then summed in their order: Total has add(span) and
// add(Total).
template <class Total, class... Arguments>
Total measure(const Buffer& anywhere, const Arguments&... arguments) {
  HostView host(anywhere);
  const Buffer& buffer = host.buffer();
  constexpr size_t kPiece = 1 << 16;
  auto count = static_cast<size_t>(buffer.count());
  std::vector<Total> pieces((count + kPiece - 1) / kPiece);
  parallel_for(count, kPiece, [&](size_t begin, size_t end) {
    auto size = static_cast<int64_t>(end - begin);
    float* room = buffer.is_fp32() ? nullptr : cpu::thread_room(end - begin);
    const float* values = cpu::load(buffer, static_cast<int64_t>(begin), size, room);
    pieces[begin / kPiece].add(std::span(values, end - begin), arguments...);
  });
  Total total;
  for (const Total& piece : pieces) total.add(piece);
  return total;
}

}  // namespace

std::string_view to_string(TensorRole role) { return kRoleNames[static_cast<size_t>(role)]; }

std::optional<TensorRole> find_role(std::string_view name) {
  const auto* found = std::ranges::find(kRoleNames, name);
  if (found == std::end(kRoleNames)) return std::nullopt;
  return static_cast<TensorRole>(found - kRoleNames);
}

double TensorScale::zero() const { return share(stats.zeros, stats.count); }
double TensorScale::subnormal() const { return share(loss.subnormal, stats.count); }
double TensorScale::saturated() const { return share(loss.beyond, stats.count); }
double TensorScale::nonfinite() const { return share(stats.nonfinite, stats.count); }
double TensorScale::underflow() const { return share(loss.to_zero, stats.count - stats.zeros); }
double TensorScale::lost() const {
  return share(loss.to_zero + loss.beyond, stats.count - stats.zeros);
}

TensorStats measure_stats(const Buffer& buffer) {
  if (buffer.device) {
    if (std::optional<TensorStats> found = buffer.device->stats(buffer)) return *found;
  }
  return measure<TensorStats>(buffer);
}

FormatLoss measure_loss(const Buffer& buffer, const FormatLimits& limits) {
  if (buffer.device) {
    if (std::optional<FormatLoss> found = buffer.device->loss(buffer, limits)) return *found;
  }
  return measure<FormatLoss>(buffer, limits);
}

}  // namespace sigma1
