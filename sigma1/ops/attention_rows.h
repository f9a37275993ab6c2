// What attention and its gradients share, with the softmax computed again or kept: settings, sizes,
// checks, and the reference's loops over one query at a time.
#pragma once

#include <functional>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Inputs: q, k, v, then relative and mask where there are any, then dy in a gradient and what was
// kept for it.
struct AttentionSettings {
  bool causal, has_relative, has_mask;
  double multiplier;
  int64_t heads;
  size_t relative = 3;

  explicit AttentionSettings(const Attributes& attributes);
  size_t mask() const { return has_relative ? 4 : 3; }
  size_t dy() const { return mask() + (has_mask ? 1 : 0); }
};

struct AttentionSizes {
  int64_t batch, heads, tq, tk, d;

  int64_t width() const { return heads * d; }
};
AttentionSizes attention_sizes(const OpView& v);  // Throws Error.

// Throws Error where q, k, v, relative or mask do not fit, or not `extra` inputs follow them.
void check_attention_inputs(const OpView& v, size_t extra);

Role attention_role(const OpView& v, size_t input);
// All but the mask and what follows dy; the probabilities, which multiply v, stay inside.
bool attention_multiplies(const OpView& v, size_t input);

// One query of one head: where its vectors stand and what it attends to.
struct AttentionRow {
  int64_t batch, head, i;
  int64_t query;               // of q's and y's first element
  int64_t first_key;           // of k's and v's first element
  std::vector<double> logits;  // by key; −infinity where it is not seen

  double log_sum() const;  // log Σ e^logit; 0 where no key is seen
  std::vector<double> probabilities(double log_sum) const;
};

class AttentionReference {
 public:
  explicit AttentionReference(const EvalView& view);

  void for_each_row(const std::function<void(const AttentionRow&)>& visit) const;
  // Σⱼ pⱼ·vⱼ into the row's part of `to`.
  void add_result(const AttentionRow& row, const std::vector<double>& p, Tensor& to) const;
  // By key: the gradient of its probability, dy·v.
  std::vector<double> probability_grads(const AttentionRow& row) const;
  // `mean` is Σⱼ pⱼ·dpⱼ.
  void add_grads(const AttentionRow& row, const std::vector<double>& p,
                 const std::vector<double>& dp, double mean) const;

  const AttentionSettings& settings() const { return settings_; }
  const AttentionSizes& sizes() const { return sizes_; }

 private:
  void fill_logits(AttentionRow& row) const;
  int64_t relative_at(const AttentionRow& row, int64_t j) const;
  int64_t visible(const AttentionRow& row) const;

  const EvalView& view_;
  AttentionSettings settings_;
  AttentionSizes sizes_;
  double temperature_;  // of the logits: multiplier · d^-½
};

}  // namespace sigma1
