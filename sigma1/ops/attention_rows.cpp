#include "sigma1/ops/attention_rows.h"

#include <algorithm>
#include <cmath>

#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

void expect_settings(const AttentionSettings& settings, const AttentionSizes& sizes) {
  if (settings.causal && sizes.tq != sizes.tk) {
    throw Error("causal: expected as many queries as keys, got {} and {}", sizes.tq, sizes.tk);
  }
  if (settings.has_relative && !settings.causal) {
    throw Error("relative: expected causal attention, whose distances are not negative");
  }
  if (!(settings.multiplier > 0) || std::isinf(settings.multiplier)) {
    throw Error("multiplier: expected a positive number, got {}", settings.multiplier);
  }
}

AttentionSizes sizes_of(const EvalView& v) {
  std::vector<TensorType> types{{v.in(0).shape}, {v.in(1).shape}};
  return attention_sizes({types, v.attributes});
}

}  // namespace

AttentionSettings::AttentionSettings(const Attributes& attributes)
    : causal(attributes.get<bool>("causal")),
      has_relative(attributes.get<bool>("has_relative")),
      has_mask(attributes.get<bool>("has_mask")),
      multiplier(attributes.get<double>("multiplier")),
      heads(attributes.get<int64_t>("heads")) {}

AttentionSizes attention_sizes(const OpView& v) {
  for (size_t i : {0, 1}) {
    if (v.in(i).rank() == 3) continue;
    throw Error("input {}: expected [batch, length, heads·d], got {}", i, to_string(v.in(i).shape));
  }
  const TensorType &q = v.in(0), &k = v.in(1);
  auto heads = v.attr<int64_t>("heads");
  if (heads < 1 || q.dim(2) % heads != 0) {
    throw Error("heads: expected a divisor of the width {}, got {}", q.dim(2), heads);
  }
  return {q.dim(0), heads, q.dim(1), k.dim(1), q.dim(2) / heads};
}

void check_attention_inputs(const OpView& v, size_t extra) {
  AttentionSettings settings(v.attributes);
  size_t expected = settings.dy() + extra;
  if (v.inputs.size() != expected) {
    throw Error("expected {} inputs, got {}", expected, v.inputs.size());
  }
  AttentionSizes sizes = attention_sizes(v);
  expect_settings(settings, sizes);
  expect_shape(v, 1, {sizes.batch, sizes.tk, sizes.width()});
  expect_shape(v, 2, {sizes.batch, sizes.tk, sizes.width()});
  if (settings.has_relative) expect_shape(v, settings.relative, {sizes.tk, sizes.width()});
  if (settings.has_mask) expect_shape(v, settings.mask(), {sizes.batch, sizes.tk});
}

Role attention_role(const OpView& v, size_t input) {
  AttentionSettings settings(v.attributes);
  if (settings.has_mask && input == settings.mask()) return Role::mask;
  return settings.has_relative && input == settings.relative ? Role::weight : Role::activation;
}

bool attention_multiplies(const OpView& v, size_t input) {
  return input <= AttentionSettings(v.attributes).dy() && attention_role(v, input) != Role::mask;
}

double AttentionRow::log_sum() const {
  double largest = *std::max_element(logits.begin(), logits.end()), sum = 0;
  if (largest == -INFINITY) return 0;
  for (double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

std::vector<double> AttentionRow::probabilities(double log_sum) const {
  std::vector<double> p;
  for (double logit : logits) p.push_back(std::exp(logit - log_sum));
  return p;
}

AttentionReference::AttentionReference(const EvalView& view)
    : view_(view),
      settings_(view.attributes),
      sizes_(sizes_of(view)),
      temperature_(settings_.multiplier * rsqrt(static_cast<double>(sizes_.d))) {}

int64_t AttentionReference::relative_at(const AttentionRow& row, int64_t j) const {
  return (row.i - j) * sizes_.width() + row.head * sizes_.d;
}

int64_t AttentionReference::visible(const AttentionRow& row) const {
  return settings_.causal ? row.i + 1 : sizes_.tk;
}

void AttentionReference::fill_logits(AttentionRow& row) const {
  int64_t tk = sizes_.tk;
  row.logits.assign(static_cast<size_t>(tk), -INFINITY);
  for (int64_t j = 0; j < visible(row); ++j) {
    if (settings_.has_mask && !(view_.in(settings_.mask())[row.batch * tk + j] > 0)) continue;
    double dot = 0;
    for (int64_t c = 0; c < sizes_.d; ++c) {
      double key = view_.in(1)[row.first_key + j * sizes_.width() + c];
      if (settings_.has_relative) key += view_.in(settings_.relative)[relative_at(row, j) + c];
      dot += view_.in(0)[row.query + c] * key;
    }
    row.logits[static_cast<size_t>(j)] = temperature_ * dot;
  }
}

void AttentionReference::for_each_row(const std::function<void(const AttentionRow&)>& visit) const {
  auto [batch, heads, tq, tk, d] = sizes_;
  int64_t width = sizes_.width();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < tq; ++i) {
        AttentionRow row{b, h, i, (b * tq + i) * width + h * d, b * tk * width + h * d, {}};
        fill_logits(row);
        visit(row);
      }
    }
  }
}

void AttentionReference::add_result(const AttentionRow& row, const std::vector<double>& p,
                                    Tensor& to) const {
  for (int64_t j = 0; j < sizes_.tk; ++j) {
    int64_t value = row.first_key + j * sizes_.width();
    for (int64_t c = 0; c < sizes_.d; ++c) {
      to[row.query + c] += p[static_cast<size_t>(j)] * view_.in(2)[value + c];
    }
  }
}

std::vector<double> AttentionReference::probability_grads(const AttentionRow& row) const {
  const Tensor& dy = view_.in(settings_.dy());
  std::vector<double> dp;
  for (int64_t j = 0; j < sizes_.tk; ++j) {
    double dot = 0;
    int64_t value = row.first_key + j * sizes_.width();
    for (int64_t c = 0; c < sizes_.d; ++c) dot += dy[row.query + c] * view_.in(2)[value + c];
    dp.push_back(dot);
  }
  return dp;
}

void AttentionReference::add_grads(const AttentionRow& row, const std::vector<double>& p,
                                   const std::vector<double>& dp, double mean) const {
  const Tensor &q = view_.in(0), &k = view_.in(1), &dy = view_.in(settings_.dy());
  Tensor &dq = view_.out(0), &dk = view_.out(1), &dv = view_.out(2);
  for (int64_t j = 0; j < visible(row); ++j) {
    auto key = static_cast<size_t>(j);
    double ddot = temperature_ * p[key] * (dp[key] - mean);
    for (int64_t c = 0; c < sizes_.d; ++c) {
      int64_t at_query = row.query + c, at_key = row.first_key + j * sizes_.width() + c;
      dv[at_key] += p[key] * dy[at_query];
      dq[at_query] += ddot * k[at_key];
      dk[at_key] += ddot * q[at_query];
      if (!settings_.has_relative) continue;
      int64_t at_relative = relative_at(row, j) + c;
      dq[at_query] += ddot * view_.in(settings_.relative)[at_relative];
      view_.out(3)[at_relative] += ddot * q[at_query];
    }
  }
}

}  // namespace sigma1
