#include "sigma1/report/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/report/diagnosis_words.h"

namespace sigma1 {
namespace {

// Tells tensors apart: an activation and its gradient have one name.
std::string tensor_key(const TensorScale& tensor) {
  return fmt::format("{} {}", to_string(tensor.role), tensor.name);
}

// A number that is not finite is worse than any share of lost ones.
bool loses(const TensorScale& tensor, double limit) {
  return tensor.lost() > limit || tensor.nonfinite() > 0;
}

LossReason reason_of(const TensorScale& tensor) {
  if (tensor.nonfinite() > 0) return LossReason::not_finite;
  return tensor.loss.beyond > tensor.loss.to_zero ? LossReason::too_large : LossReason::too_small;
}

std::string why(const TensorScale& tensor) {
  FloatFormat format = find_format(tensor.format).format;
  std::string smallest = short_number(format.min_subnormal());
  double sigma = tensor.stats.std_dev();
  switch (reason_of(tensor)) {
    case LossReason::too_small:
      // Another scale would not mend it: the numbers spread wider than the format does.
      if (sigma >= format.min_normal()) {
        return fmt::format("partly too small: down to {}, the format's smallest is {}",
                           power_of_two(tensor.stats.abs_min), smallest);
      }
      return fmt::format("too small: σ = {}, the format's smallest is {}", power_of_two(sigma),
                         smallest);
    case LossReason::too_large:
      return fmt::format("too large: up to {}, the format's largest is {}",
                         power_of_two(tensor.stats.abs_max), short_number(format.max()));
    case LossReason::not_finite:
      return "not finite before it is cast";
  }
  throw Bug("unknown reason of a loss");
}

// "layer12/ffn/relu" is number 12 of the family "layer", "/ffn/relu"; −1: not one of many.
struct LayerName {
  std::string family, rest;
  int number = -1;

  explicit LayerName(const std::string& name) {
    size_t end = std::min(name.find('/'), name.size()), digits = end;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    family = name.substr(0, digits);
    rest = name.substr(end);
    constexpr size_t kMostDigits = 6;
    if (digits < end && end - digits <= kMostDigits) {
      number = std::stoi(name.substr(digits, end - digits));
    } else {
      family = name.substr(0, end);
    }
  }
};

std::string group_name(const LayerName& name, const std::set<int>& numbers) {
  int first = *numbers.begin(), last = *numbers.rbegin();
  if (first < 0) return name.family + name.rest;
  if (first == last) return fmt::format("{}{}{}", name.family, first, name.rest);
  bool all = last - first + 1 == std::ssize(numbers);
  if (all) return fmt::format("{0}{1}…{0}{2}{3}", name.family, first, last, name.rest);
  std::string list;
  for (int number : numbers) list += fmt::format("{}{}", list.empty() ? "" : ",", number);
  return fmt::format("{}{{{}}}{}", name.family, list, name.rest);
}

TensorGroup make_group(const std::vector<const TensorScale*>& members) {
  const TensorScale* worst = members.front();
  TensorGroup group;
  std::set<int> numbers;
  for (const TensorScale* each : members) {
    if (each->lost() > worst->lost()) worst = each;
    group.tensors.push_back(each->name);
    numbers.insert(LayerName(each->name).number);
  }
  group.name = group_name(LayerName(worst->name), numbers);
  group.role = worst->role;
  group.format = worst->format;
  group.sigma = worst->stats.std_dev();
  group.lost = worst->lost();
  group.reason = reason_of(*worst);
  group.why = why(*worst);
  return group;
}

std::vector<TensorGroup> groups_of(const MethodScales& scales, double limit) {
  using Key = std::tuple<std::string, std::string, bool, TensorRole, std::string, LossReason>;
  std::map<Key, std::vector<const TensorScale*>> members;
  for (const TensorScale& each : scales.tensors) {
    if (!loses(each, limit)) continue;
    LayerName name(each.name);
    Key key{name.family, name.rest, name.number < 0, each.role, each.format, reason_of(each)};
    members[key].push_back(&each);
  }
  std::vector<TensorGroup> groups;
  for (const auto& [key, alike] : members) groups.push_back(make_group(alike));
  std::ranges::stable_sort(groups, [](const TensorGroup& a, const TensorGroup& b) {
    bool a_broken = a.reason == LossReason::not_finite,
         b_broken = b.reason == LossReason::not_finite;
    return a_broken != b_broken ? a_broken : a.lost > b.lost;
  });
  return groups;
}

std::vector<SigmaRange> ranges_of(const MethodScales& scales) {
  std::map<TensorRole, std::vector<double>> by_role;
  for (const TensorScale& each : scales.tensors) {
    double sigma = each.stats.std_dev();
    if (sigma > 0) by_role[each.role].push_back(sigma);
  }
  std::vector<SigmaRange> ranges;
  for (auto& [role, sigmas] : by_role) {
    std::ranges::sort(sigmas);
    // Of two in the middle, the mean of their exponents.
    size_t half = sigmas.size() / 2;
    double median =
        sigmas.size() % 2 == 1 ? sigmas[half] : std::sqrt(sigmas[half - 1] * sigmas[half]);
    ranges.push_back({role, std::ssize(sigmas), sigmas.front(), median, sigmas.back()});
  }
  return ranges;
}

std::set<std::string> losing_keys(const MethodScales& scales, double limit) {
  std::set<std::string> keys;
  for (const TensorScale& each : scales.tensors) {
    if (loses(each, limit)) keys.insert(tensor_key(each));
  }
  return keys;
}

MethodDiagnosis diagnose_method(const MethodScales& scales, const MethodScales& first,
                                double limit) {
  MethodDiagnosis found;
  found.method = scales.method;
  found.tensors = std::ssize(scales.tensors);
  std::set<std::string> here = losing_keys(scales, limit), there = losing_keys(first, limit);
  found.losing = std::ssize(here);
  for (const std::string& key : there) found.mended += here.contains(key) ? 0 : 1;
  for (const std::string& key : here) found.spoilt += there.contains(key) ? 0 : 1;
  for (const TensorScale& each : scales.tensors) found.worst = std::max(found.worst, each.lost());
  found.groups = groups_of(scales, limit);
  found.ranges = ranges_of(scales);
  return found;
}

// In the order of the tensors. What is stored in more than 8 bits loses with any product.
std::vector<std::string> products_to_keep(const DiagnosisInput& input) {
  std::vector<std::string> products;
  for (const MethodScales& scales : input.methods) {
    if (scales.method != "unit") continue;
    for (const TensorScale& each : scales.tensors) {
      bool concerned = loses(each, input.limit) && find_format(each.format).format.bits() <= 8;
      if (!concerned) continue;
      for (const std::string& product : each.products) {
        if (std::ranges::find(products, product) == products.end()) products.push_back(product);
      }
    }
  }
  return products;
}

}  // namespace

Diagnosis diagnose(const DiagnosisInput& input) {
  if (input.methods.empty()) throw Bug("diagnose: expected at least one method");
  Diagnosis found{.precision = input.precision,
                  .limit = input.limit,
                  .methods = {},
                  .products_to_keep = products_to_keep(input),
                  .cost = input.cost,
                  .traffic = input.traffic};
  for (const MethodScales& scales : input.methods) {
    found.methods.push_back(diagnose_method(scales, input.methods.front(), input.limit));
  }
  return found;
}

std::string Diagnosis::setting() const {
  if (products_to_keep.empty()) return "";
  std::string overrides;
  for (const std::string& product : products_to_keep) {
    overrides += fmt::format("{}{}=fp16", overrides.empty() ? "" : ",", product);
  }
  return fmt::format("--set matmul-overrides=\"{}\"", overrides);
}

}  // namespace sigma1
