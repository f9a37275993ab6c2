#include "sigma1/runtime/probe.h"

#include <algorithm>

namespace sigma1 {
namespace {

constexpr std::string_view kRoleNames[] = {"activation", "weight", "gradx", "gradw"};

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
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

}  // namespace sigma1
