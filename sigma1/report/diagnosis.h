// Where a model would lose its bits, and what unit scaling makes of it: from measured tensors to
// counts, groups and words.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sigma1/analysis/scaling_cost.h"
#include "sigma1/report/rank_traffic.h"
#include "sigma1/runtime/probe.h"

namespace sigma1 {

// One training step's tensors under a method as --method has it: none, loss-scale=N, unit.
struct MethodScales {
  std::string method;
  std::vector<TensorScale> tensors;
};

struct DiagnosisInput {
  std::string precision;  // as asked for: "fp8"
  double limit = 0.01;    // share of a tensor's numbers that may be lost
  std::vector<MethodScales> methods;
  StepScalingCost cost;
  RankTraffic traffic = {};
};

enum class LossReason { too_small, too_large, not_finite };

// Tensors that differ in the number of their layer alone and lose for the same reason.
struct TensorGroup {
  std::string name;                  // "layer0…layer7/ffn/relu"
  std::vector<std::string> tensors;  // names, as measured
  TensorRole role = TensorRole::activation;
  std::string format;
  // Of the tensor that loses most:
  double sigma = 0, lost = 0;
  LossReason reason = LossReason::too_small;
  std::string why;
};

// Standard deviations of one role's tensors, those of zeros alone left out.
struct SigmaRange {
  TensorRole role = TensorRole::activation;
  int64_t tensors = 0;
  double min = 0, median = 0, max = 0;
};

struct MethodDiagnosis {
  std::string method;
  int64_t tensors = 0, losing = 0;
  // Beside the first method: what that loses and this does not, and the reverse.
  int64_t mended = 0, spoilt = 0;
  double worst = 0;                 // the largest share that any tensor loses
  std::vector<TensorGroup> groups;  // all that lose more than the limit, the worst first
  std::vector<SigmaRange> ranges;
};

struct Diagnosis {
  std::string precision;
  double limit = 0;
  std::vector<MethodDiagnosis> methods;
  // Under unit scaling: products with an 8-bit input that loses more than the limit.
  std::vector<std::string> products_to_keep;
  StepScalingCost cost;
  RankTraffic traffic = {};

  std::string verdict() const;
  // What to give to train; empty when no product is to be kept.
  std::string setting() const;
  std::string to_text() const;
  std::string to_json() const;
};

Diagnosis diagnose(const DiagnosisInput& input);

}  // namespace sigma1
