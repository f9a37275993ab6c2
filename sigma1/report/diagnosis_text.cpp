#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/base/table.h"
#include "sigma1/report/diagnosis.h"
#include "sigma1/report/diagnosis_words.h"

namespace sigma1 {
namespace {

constexpr int64_t kGroupsShown = 8;

std::string_view adjective(LossReason reason) {
  switch (reason) {
    case LossReason::too_small:
      return "too small";
    case LossReason::too_large:
      return "too large";
    case LossReason::not_finite:
      return "not finite";
  }
  throw Bug("unknown reason of a loss");
}

// "90 activation gradients too small and 6 weights too large", the most frequent first.
std::string what_is_lost(const MethodDiagnosis& method) {
  std::map<std::pair<TensorRole, LossReason>, int64_t> counts;
  for (const TensorGroup& group : method.groups) {
    counts[{group.role, group.reason}] += std::ssize(group.tensors);
  }
  std::vector<std::pair<int64_t, std::string>> kinds;
  for (const auto& [kind, count] : counts) {
    kinds.emplace_back(count,
                       fmt::format("{} {}", role_words(kind.first, count), adjective(kind.second)));
  }
  std::ranges::stable_sort(kinds, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (const auto& [count, text] : kinds) words.push_back(text);
  return joined(words);
}

std::string worst_words(const MethodDiagnosis& method) {
  return method.worst > 0 ? fmt::format("the worst loses {}", percent(method.worst))
                          : "nothing is lost";
}

std::string of_all(int64_t count, int64_t all) {
  return fmt::format("{} of {}", count == 0 ? "none" : fmt::format("{}", count),
                     counted(all, "tensor"));
}

std::string first_sentence(const MethodDiagnosis& method, const Diagnosis& diagnosis) {
  std::string whole = fmt::format("{} in {} would lose more than {} of the numbers of {}",
                                  method_title(method.method), upper(diagnosis.precision),
                                  percent(diagnosis.limit), of_all(method.losing, method.tensors));
  if (method.losing == 0) return fmt::format("{}; {}.", whole, worst_words(method));
  return fmt::format("{}: {}; {}.", whole, what_is_lost(method), worst_words(method));
}

std::string next_sentence(const MethodDiagnosis& method, const MethodDiagnosis& first) {
  std::string title = method_title(method.method), rest = of_all(method.losing, method.tensors);
  if (first.losing == 0) return fmt::format("{}: {}; {}.", title, rest, worst_words(method));
  std::string mended = method.mended == first.losing ? "all"
                       : method.mended == 0          ? "none of the"
                                                     : fmt::format("{} of the", method.mended);
  std::string spoilt =
      method.spoilt == 0 ? "" : fmt::format(" but loses {}", counted(method.spoilt, "other"));
  return fmt::format("{} mends {} {}{}: {} {}; {}.", title, mended, first.losing, spoilt, rest,
                     method.losing <= 1 ? "remains" : "remain", worst_words(method));
}

std::string worst_tensors(const MethodDiagnosis& method, double limit) {
  std::string text = fmt::format("{}: {} {} more than {}.\n", method_title(method.method),
                                 of_all(method.losing, method.tensors),
                                 method.losing <= 1 ? "loses" : "lose", percent(limit));
  if (method.groups.empty()) return text;
  Table table({"tensor", "role", "format", "σ", "lost %", "why"});
  int64_t left_out = 0, tensors_left_out = 0;
  for (const TensorGroup& group : method.groups) {
    int64_t size = std::ssize(group.tensors);
    if (&group - method.groups.data() >= kGroupsShown) {
      ++left_out;
      tensors_left_out += size;
      continue;
    }
    std::string name =
        size == 1 ? group.name : fmt::format("{} ({})", group.name, counted(size, "tensor"));
    table.add({name, std::string(to_string(group.role)), group.format, power_of_two(group.sigma),
               percent_digits(group.lost), group.why});
  }
  text += table.text();
  if (left_out > 0) {
    text += fmt::format("and {} of {}\n", counted(left_out, "more line"),
                        counted(tensors_left_out, "tensor"));
  }
  return text;
}

std::string scales(const Diagnosis& diagnosis) {
  Table table({"role", "method", "tensors", "smallest σ", "median σ", "largest σ"});
  for (TensorRole role :
       {TensorRole::activation, TensorRole::weight, TensorRole::gradx, TensorRole::gradw}) {
    for (const MethodDiagnosis& method : diagnosis.methods) {
      for (const SigmaRange& range : method.ranges) {
        if (range.role != role) continue;
        table.add({std::string(to_string(role)), method.method, fmt::format("{}", range.tensors),
                   power_of_two(range.min), power_of_two(range.median), power_of_two(range.max)});
      }
    }
  }
  return "Scales of the tensors by role:\n" + table.text();
}

std::string products(const Diagnosis& diagnosis) {
  std::string text = "Matrix products to keep in 16 bits under unit scaling: ";
  if (diagnosis.products_to_keep.empty()) return text + "none.\n";
  return fmt::format("{}{}.\n  {}\n", text, diagnosis.products_to_keep.size(), diagnosis.setting());
}

std::string millions(int64_t value) {
  return fmt::format("{:.4g}", static_cast<double>(value) / 1e6);
}

std::string cost_text(const StepScalingCost& cost) {
  Table table({"factors", "tensors", "10^6 multiplications", "% of products", "10^6 bytes moved"});
  auto add = [&](const char* name, const ScalingCost& of) {
    table.add({name, fmt::format("{}", of.factors), millions(of.multiplications),
               percent_digits(cost.share(of)), millions(of.bytes)});
  };
  add("as ops of their own", cost.separate);
  add("folded, with the model's own", cost.folded);
  add("the model's own, folded", cost.regular);
  std::string text = fmt::format(
      "What unit scaling costs in one step, whose matrix products take {:.4g} GFLOP:\n{}",
      static_cast<double>(cost.product_flops) / 1e9, table.text());
  const PaperEstimate& paper = cost.paper;
  text += fmt::format(
      "The paper's formulas give {} by the sizes of the products, and {} for {:.2g} scaled ops a "
      "product at width {}.\n",
      percent(paper.by_product_sizes), percent(paper.by_hidden_size()), paper.ops_per_matmul(),
      paper.hidden_size);
  if (!cost.folded.passes.empty()) {
    text += fmt::format("Not folded: {}.\n", joined(cost.folded.passes));
  }
  return text;
}

std::string traffic_text(const RankTraffic& traffic) {
  if (traffic.ranks == 1) return "";
  std::string text = fmt::format(
      "\nBetween {} ranks in one step: 10^6 bytes of gradients in {}: {}; of weights from their "
      "owners: {}; a rank sends at most {}.\n",
      traffic.ranks, traffic.reduce, millions(traffic.gradient_bytes),
      millions(traffic.weight_bytes), millions(traffic.most_sent));
  if (traffic.exchange_seconds == 0 || traffic.step_seconds == 0) return text;
  return fmt::format(
      "{}That takes {:.3g} ms of a step's {:.3g} ms, {}, waiting for slower ranks included "
      "(means "
      "of the run).\n",
      text, 1e3 * traffic.exchange_seconds, 1e3 * traffic.step_seconds, percent(traffic.share()));
}

}  // namespace

std::string Diagnosis::verdict() const {
  std::string text = first_sentence(methods.front(), *this);
  for (size_t i = 1; i < methods.size(); ++i) {
    text += " " + next_sentence(methods[i], methods.front());
  }
  return text;
}

std::string Diagnosis::to_text() const {
  std::string text = verdict() + "\n";
  for (const MethodDiagnosis& method : methods) text += "\n" + worst_tensors(method, limit);
  return fmt::format("{}\n{}\n{}\n{}{}", text, scales(*this), products(*this), cost_text(cost),
                     traffic_text(traffic));
}

}  // namespace sigma1
