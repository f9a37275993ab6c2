#include "sigma1/backend/cuda/bundle.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/bundle_kinds.cuh"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/base/error.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1::cuda {
namespace {

// Whether a node may wait for the end of its graph with others: its inputs are kept until then.
// With many rows it is large enough by itself, and sums are better made where their rows are.
bool may_wait(const Launch& launch) {
  constexpr int64_t kMostNumbers = 1 << 24;
  return std::ranges::all_of(launch.inputs, [](const Buffer& each) {
    int64_t width = each.shape.empty() ? 1 : each.shape.back();
    return each.count() <= kMostNumbers &&
           !has_many_rows(each.count() / std::max<int64_t>(width, 1));
  });
}

const Device& device_of(std::span<const ChainStep> steps) {
  if (steps.empty()) throw Bug("a bundle of no steps");
  BundleKind kind = bundle_kind(*steps[0].op, steps[0].launch);
  const Device* device = steps[0].launch.out().device;
  for (const ChainStep& each : steps) {
    if (bundle_kind(*each.op, each.launch) != kind) throw Bug("{}: of another kind", each.op->name);
    if (each.launch.out().device != device) throw Bug("{}: on another device", each.op->name);
  }
  if (device == nullptr) throw Bug("{}: expected buffers of a GPU", steps[0].op->name);
  return *device;
}

std::unique_ptr<Chain> bundle_norm_steps(const Device& device, std::span<const ChainStep> steps) {
  std::vector<NormWeightTask> tasks;
  for (const ChainStep& each : steps) tasks.push_back(norm_weight_task(*each.op, each.launch));
  return bundle_norm_weight_gradients(device, tasks);
}

// Takes those of the casts that its kernels do along with the steps.
std::unique_ptr<Chain> make_bundle(const Device& device, std::span<const ChainStep> steps,
                                   std::vector<const ChainStep*>& casts) {
  switch (bundle_kind(*steps[0].op, steps[0].launch)) {
    case BundleKind::products:
      return bundle_products(device, steps);
    case BundleKind::sums:
      return bundle_sums(device, steps);
    case BundleKind::norm_weight_gradients:
      return bundle_norm_steps(device, steps);
    case BundleKind::adam_steps:
      return bundle_adam_steps(device, steps, casts);
    case BundleKind::lamb_steps:
      return bundle_lamb_steps(device, steps, casts);
    case BundleKind::none:
      break;
  }
  throw Bug("{}: cannot be bundled", steps[0].op->name);
}

}  // namespace

BundleKind bundle_kind(const OpDef& op, const Launch& launch) {
  if (is_bundled_adam_step(op, launch)) return BundleKind::adam_steps;
  if (is_bundled_lamb_step(op, launch)) return BundleKind::lamb_steps;
  if (!may_wait(launch)) return BundleKind::none;
  if (is_bundled_product(op, launch)) return BundleKind::products;
  if (is_bundled_sum(op, launch)) return BundleKind::sums;
  if (is_bundled_norm_weight_gradient(op, launch)) return BundleKind::norm_weight_gradients;
  return BundleKind::none;
}

Bundle::Bundle(std::vector<ChainStep> steps) {
  auto first_cast =
      std::ranges::find_if(steps, [](const ChainStep& each) { return each.op == &identity_op; });
  std::span nodes(steps.begin(), first_cast);
  const Device& device = device_of(nodes);
  std::vector<const ChainStep*> casts;
  for (const ChainStep& each : std::span(first_cast, steps.end())) casts.push_back(&each);
  has_casts_ = !casts.empty();
  if (has_casts_ && !takes_casts(bundle_kind(*nodes[0].op, nodes[0].launch))) {
    throw Bug("{}: its bundle takes no casts", nodes[0].op->name);
  }
  of_kind_ = make_bundle(device, nodes, casts);
  for (const ChainStep* each : casts) {
    casts_.emplace_back(std::vector<ChainStep>{{each->op, each->launch, {}}});
  }
}

void Bundle::run(uint64_t step) {
  of_kind_->run(step);
  for (PointwiseChain& each : casts_) each.run(step);
}

}  // namespace sigma1::cuda
