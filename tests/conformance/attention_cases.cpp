#include "sigma1/ops/attention.h"

#include <cmath>

#include "tests/conformance/at.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Tensors = std::vector<Tensor>;

constexpr int64_t kSmallHeads = 3, kLargeHeads = 100;

struct Mode {
  bool causal = false, relative = false, mask = false;
  double multiplier = 1;

  std::string label() const {
    return std::string(causal ? "causal" : "all") + (relative ? " relative" : "") +
           (mask ? " mask" : "") + (multiplier == 1 ? "" : " multiplier");
  }
  Attributes attributes(int64_t heads) const {
    return {{"heads", heads},
            {"causal", causal},
            {"multiplier", multiplier},
            {"has_relative", relative},
            {"has_mask", mask}};
  }
  std::vector<TensorType> inputs(int64_t batch, int64_t heads, int64_t tq, int64_t tk,
                                 int64_t d) const {
    TensorType keys{{batch, tk, heads * d}};
    std::vector<TensorType> types{{{batch, causal ? tk : tq, heads * d}}, keys, keys};
    if (relative) types.push_back({{tk, heads * d}});
    if (mask) types.push_back({{batch, tk}});
    return types;
  }
};

// One query's view of the formula, by coordinates.
struct Query {
  const Tensors& in;
  Mode mode;
  int64_t b, h, i;

  int64_t keys() const { return in[1].dim(1); }
  int64_t d() const { return in[0].dim(2) / kSmallHeads; }
  int64_t column(int64_t c) const { return h * d() + c; }
  bool sees(int64_t j) const {
    if (mode.causal && j > i) return false;
    return !mode.mask || at(in[mode.relative ? 4 : 3], {b, j}) != 0;
  }
  // ∂logitⱼ/∂q_c, as logits are linear in q
  double slope(int64_t j, int64_t c) const {
    double key = at(in[1], {b, j, column(c)}) + (mode.relative ? at(in[3], {i - j, column(c)}) : 0);
    return mode.multiplier * key / std::sqrt(static_cast<double>(d()));
  }
  double weight(int64_t j) const {
    if (!sees(j)) return 0;
    double logit = 0;
    for (int64_t c = 0; c < d(); ++c) logit += at(in[0], {b, i, column(c)}) * slope(j, c);
    return std::exp(logit);
  }
  std::vector<double> probabilities() const {
    std::vector<double> p;
    double total = 0;
    for (int64_t j = 0; j < keys(); ++j) total += p.emplace_back(weight(j));
    for (double& each : p) each = total > 0 ? each / total : 0;
    return p;
  }
};

template <class Visit>
void for_each_query(const Tensors& in, const Mode& mode, Visit visit) {
  for (int64_t b = 0; b < in[0].dim(0); ++b) {
    for (int64_t h = 0; h < kSmallHeads; ++h) {
      for (int64_t i = 0; i < in[0].dim(1); ++i) visit(Query{in, mode, b, h, i});
    }
  }
}

Tensors attended(const Tensors& in, const Mode& mode) {
  Tensor y(in[0].shape);
  for_each_query(in, mode, [&](const Query& query) {
    auto [same_in, same_mode, b, h, i] = query;
    std::vector<double> p = query.probabilities();
    for (int64_t j = 0; j < query.keys(); ++j) {
      for (int64_t c = query.column(0); c < query.column(query.d()); ++c) {
        at(y, {b, i, c}) += p[static_cast<size_t>(j)] * at(in[2], {b, j, c});
      }
    }
  });
  return {y};
}

// With the whole Jacobian ∂pₗ/∂logitⱼ = pₗ·(δₗⱼ − pⱼ) of every query.
Tensors attended_grad(const Tensors& in, const Mode& mode) {
  Tensors grads{Tensor(in[0].shape), Tensor(in[1].shape), Tensor(in[2].shape)};
  if (mode.relative) grads.emplace_back(in[3].shape);
  for_each_query(in, mode, [&](const Query& query) {
    auto [same_in, same_mode, b, h, i] = query;
    std::vector<double> p = query.probabilities();
    int64_t n = query.keys(), d = query.d();
    double factor = mode.multiplier / std::sqrt(static_cast<double>(d));
    for (int64_t j = 0; j < n; ++j) {
      if (!query.sees(j)) continue;
      double dlogit = 0, pj = p[static_cast<size_t>(j)];
      for (int64_t l = 0; l < n; ++l) {
        double slope = p[static_cast<size_t>(l)] * ((l == j ? 1 : 0) - pj);
        for (int64_t c = query.column(0); c < query.column(d); ++c) {
          dlogit += slope * at(in.back(), {b, i, c}) * at(in[2], {b, l, c});
        }
      }
      for (int64_t c = 0; c < d; ++c) {
        int64_t column = query.column(c);
        double q = at(in[0], {b, i, column});
        at(grads[0], {b, i, column}) += dlogit * query.slope(j, c);
        at(grads[1], {b, j, column}) += dlogit * factor * q;
        at(grads[2], {b, j, column}) += pj * at(in.back(), {b, i, column});
        if (mode.relative) at(grads[3], {i - j, column}) += dlogit * factor * q;
      }
    }
  });
  return grads;
}

Tensors attended_and_kept(const Tensors& in, const Mode& mode, bool keeps_result) {
  Tensors outputs = attended(in, mode);
  Tensor& logs = outputs.emplace_back(Shape{in[0].dim(0), kSmallHeads, in[0].dim(1)});
  for_each_query(in, mode, [&](const Query& query) {
    double total = 0;
    for (int64_t j = 0; j < query.keys(); ++j) total += query.weight(j);
    at(logs, {query.b, query.h, query.i}) = total > 0 ? std::log(total) : 0;
  });
  if (keeps_result) outputs.push_back(outputs.front());
  return outputs;
}

// Of any result and logarithms, whether or not they are those of q, k and v.
Tensors kept_grad(const Tensors& in, const Mode& mode, double result_factor) {
  Tensors grads{Tensor(in[0].shape), Tensor(in[1].shape), Tensor(in[2].shape)};
  const Tensor &dy = in.end()[-3], &result = in.end()[-2], &logs = in.end()[-1];
  for_each_query(in, mode, [&](const Query& query) {
    auto [same_in, same_mode, b, h, i] = query;
    double factor = mode.multiplier / std::sqrt(static_cast<double>(query.d()));
    for (int64_t j = 0; j < query.keys(); ++j) {
      double p = query.weight(j) / std::exp(at(logs, {b, h, i})), dlogit = 0;
      for (int64_t c = query.column(0); c < query.column(query.d()); ++c) {
        double value = at(in[2], {b, j, c}) - at(result, {b, i, c}) / result_factor;
        dlogit += p * at(dy, {b, i, c}) * value;
        at(grads[2], {b, j, c}) += p * at(dy, {b, i, c});
      }
      for (int64_t c = 0; c < query.d(); ++c) {
        at(grads[0], {b, i, query.column(c)}) += dlogit * query.slope(j, c);
        at(grads[1], {b, j, query.column(c)}) +=
            dlogit * factor * at(in[0], {b, i, query.column(c)});
      }
    }
  });
  return grads;
}

void add_kept(const Mode& mode, const std::vector<TensorType>& small,
              std::vector<ConformanceCase>& cases) {
  for (bool keeps_result : {false, true}) {
    Attributes attributes = mode.attributes(kSmallHeads);
    attributes.set(kKeepsResult, keeps_result);
    cases.push_back({mode.label() + (keeps_result ? " result" : ""),
                     &attention_kept_op,
                     small,
                     attributes,
                     [=](const Tensors& in) { return attended_and_kept(in, mode, keeps_result); },
                     {},
                     {}});
  }
  double result_factor = mode.mask ? 0.3 : 1;
  Attributes attributes = mode.attributes(kSmallHeads);
  attributes.set(kResultFactor, result_factor);
  std::vector<TensorType> types = small;
  TensorType q = small.front();
  types.insert(types.end(), {q, q, {{q.dim(0), kSmallHeads, q.dim(1)}}});
  cases.push_back({mode.label(),
                   &attention_kept_grad_op,
                   types,
                   attributes,
                   [=](const Tensors& in) { return kept_grad(in, mode, result_factor); },
                   {},
                   {}});
}

}  // namespace

std::vector<ConformanceCase> attention_cases() {
  const Mode modes[] = {{},
                        {.causal = true},
                        {.multiplier = 0.7},
                        {.mask = true},
                        {.causal = true, .relative = true},
                        {.causal = true, .mask = true},
                        {.causal = true, .relative = true, .mask = true, .multiplier = 0.7}};
  std::vector<ConformanceCase> cases;
  for (const Mode& mode : modes) {
    std::vector<TensorType> small = mode.inputs(2, kSmallHeads, 4, 5, 6);
    auto forward = [=](const Tensors& in) { return attended(in, mode); };
    auto backward = [=](const Tensors& in) { return attended_grad(in, mode); };
    Attributes attributes = mode.attributes(kSmallHeads);
    cases.push_back({mode.label(), &attention_op, small, attributes, forward,
                     mode.inputs(8, kLargeHeads, 10, 14, 16), mode.attributes(kLargeHeads)});
    if (!mode.relative) add_kept(mode, small, cases);
    small.push_back(small.front());
    cases.push_back({mode.label(), &attention_grad_op, small, attributes, backward, {}, {}});
  }
  return cases;
}

}  // namespace sigma1
