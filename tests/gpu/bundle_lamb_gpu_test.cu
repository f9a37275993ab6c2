// LAMB's steps of many tensors against the kernel of one, bit for bit, and against the op's
// reference. Times are printed.
#include <gtest/gtest.h>

#include <limits>

#include "tests/conformance/kernel_checks.h"
#include "tests/gpu/bundle_checks.h"

namespace sigma1 {
namespace {

class CudaLambBundles : public CudaBundles {};

const Formats kSingle{"fp32"};
// As sessions store them: weights, gradient, first mean, second mean, and then rate and step.
const Formats kHalfInputs{"fp16", "fp16", "fp16", "fp32"}, kHalfOutputs{"fp16", "fp16", "fp32"};
constexpr int64_t kCounts[] = {1, 3, 1000, 1024, 5000, 300000};
constexpr double kLimits[] = {0, 1, 0.05};  // of these the last is reached: directions are long

NodeSpec lamb_spec(const Shape& shape, const Formats& inputs, const Formats& outputs,
                   bool decoupled = true, double max_trust_ratio = 0) {
  NodeSpec spec = adam_spec(shape, inputs, outputs, Rounding::nearest_even, decoupled);
  spec.op = &lamb_step_op;
  spec.attributes.set("max_trust_ratio", max_trust_ratio);
  return spec;
}

NodeSpec rounded(NodeSpec spec, std::vector<Rounding> roundings) {
  spec.roundings = std::move(roundings);
  return spec;
}

void expect_references(const std::deque<GpuNode>& nodes) {
  Bundle bundle(steps_of(nodes, BundleKind::lamb_steps));
  bundle.run(3);
  for (const GpuNode& node : nodes) {
    std::vector<Tensor> want = node.references();
    for (size_t o = 0; o < want.size(); ++o) {
      SCOPED_TRACE(to_string(node.spec().shapes[0]) + ", output " + std::to_string(o));
      const DeviceTensor& out = node.outputs()[o];
      expect_close(out.numbers(), want[o], out.buffer().codec);
    }
  }
}

// Every count with every choice of decay and limit.
void add_all(std::deque<GpuNode>& nodes, const Formats& inputs, const Formats& outputs) {
  for (int64_t count : kCounts) {
    for (bool decoupled : {true, false}) {
      for (double limit : kLimits) {
        nodes.emplace_back(lamb_spec({count}, inputs, outputs, decoupled, limit), nodes.size());
      }
    }
  }
}

void expect_all(const std::deque<GpuNode>& nodes) {
  expect_as_alone(nodes, BundleKind::lamb_steps);
  expect_references(nodes);
}

TEST_F(CudaLambBundles, StepInSingle) {
  std::deque<GpuNode> nodes;
  add_all(nodes, kSingle, kSingle);
  expect_all(nodes);
}

TEST_F(CudaLambBundles, StepInHalf) {
  std::deque<GpuNode> nodes;
  add_all(nodes, kHalfInputs, kHalfOutputs);
  add_all(nodes, {"fp16", "fp16", "fp32"}, {"fp16", "fp32"});
  expect_all(nodes);
}

TEST_F(CudaLambBundles, StepInAnyFormats) {
  std::deque<GpuNode> nodes;
  add_all(nodes, {"bf16", "bf16", "fp32"}, {"bf16", "fp32"});
  nodes.emplace_back(lamb_spec({130, 171}, {"bf16", "bf16", "bf16", "fp32"}, {"bf16"}), 1);
  nodes.emplace_back(lamb_spec({77, 9}, {"fp16", "e5m2", "fp32"}, {"e4m3"}, false, 1), 2);
  nodes.emplace_back(lamb_spec({4096}, {"fp32"}, {"fp16", "bf16", "fp32"}), 3);
  nodes.emplace_back(lamb_spec({4097}, {"fp32"}, {"fp16", "bf16", "fp32"}), 4);
  expect_all(nodes);
}

// What is rounded stochastically has no one reference, but the step by itself has these bits too.
TEST_F(CudaLambBundles, RoundStochasticallyAsAlone) {
  std::deque<GpuNode> nodes;
  // The weights alone, as in sessions, and the first mean too, which makes the step not plain.
  const std::vector<Rounding> of_weights{Rounding::stochastic, Rounding::nearest_even};
  const std::vector<Rounding> of_all{Rounding::stochastic};
  for (int64_t count : kCounts) {
    for (bool decoupled : {true, false}) {
      for (double limit : kLimits) {
        NodeSpec spec = lamb_spec({count}, kHalfInputs, kHalfOutputs, decoupled, limit);
        nodes.emplace_back(rounded(spec, of_weights), nodes.size());
        nodes.emplace_back(rounded(spec, of_all), nodes.size());
        NodeSpec mixed = lamb_spec({count}, {"bf16", "bf16", "fp32"}, {"bf16", "fp32"});
        nodes.emplace_back(rounded(mixed, of_weights), nodes.size());
      }
    }
  }
  expect_as_alone(nodes, BundleKind::lamb_steps);
}

void fill(const GpuNode& node, size_t input, double value) {
  node.inputs()[input].fill([&](size_t) { return value; });
}

// A length of zero leaves the step to Adam.
TEST_F(CudaLambBundles, StepFromZeroAndWithoutGradient) {
  std::deque<GpuNode> nodes;
  for (int64_t count : {3, 1024, 5000}) {
    for (const Formats& inputs : {kSingle, kHalfInputs}) {
      for (size_t zero_input : {size_t{0}, size_t{1}}) {
        NodeSpec spec = lamb_spec({count}, inputs, inputs == kSingle ? kSingle : kHalfOutputs);
        if (zero_input == 1) spec.attributes.set("weight_decay", 0.0);
        const GpuNode& node = nodes.emplace_back(spec, nodes.size());
        fill(node, zero_input, 0);
        if (zero_input == 0) continue;
        fill(node, 2, 0);
        fill(node, 3, 0);
      }
    }
  }
  expect_all(nodes);
}

// One number that is not finite makes its own tensor's step what it is alone, and no other's.
TEST_F(CudaLambBundles, KeepToTheirTensorWhatIsNotFinite) {
  std::deque<GpuNode> nodes;
  for (double odd :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1.0}) {
    for (const Formats& inputs : {kSingle, kHalfInputs}) {
      const Formats& outputs = inputs == kSingle ? kSingle : kHalfOutputs;
      const GpuNode& node = nodes.emplace_back(lamb_spec({5000}, inputs, outputs), nodes.size());
      node.inputs()[1].fill([&](size_t i) { return i == 4321 ? odd : 1.0; });
    }
  }
  expect_as_alone(nodes, BundleKind::lamb_steps);
  Bundle bundle(steps_of(nodes, BundleKind::lamb_steps));
  bundle.run(3);
  for (size_t i = 4; i < nodes.size(); ++i) {
    const DeviceTensor& out = nodes[i].outputs().front();
    expect_close(out.numbers(), nodes[i].reference(), out.buffer().codec);
  }
}

// As in sessions: new numbers lie where the old ones lay.
TEST_F(CudaLambBundles, StepInPlace) {
  std::deque<GpuNode> nodes;
  for (int64_t count : kCounts) {
    nodes.emplace_back(lamb_spec({count}, kSingle, kSingle), nodes.size());
    nodes.emplace_back(lamb_spec({count}, kHalfInputs, kHalfOutputs), nodes.size());
  }
  for (const GpuNode& node : nodes) node.run_alone();
  Bytes apart = outputs_of(nodes), in_place;
  constexpr size_t kPlaces[] = {0, 2, 3};  // of each output, among the inputs
  std::deque<std::vector<Buffer>> outputs;
  std::vector<ChainStep> steps;
  for (const GpuNode& node : nodes) {
    Launch launch = node.launch();
    std::vector<Buffer>& placed =
        outputs.emplace_back(launch.outputs.begin(), launch.outputs.end());
    for (size_t o = 0; o < placed.size(); ++o) placed[o].data = launch.in(kPlaces[o]).data;
    launch.outputs = placed;
    steps.push_back({node.spec().op, launch, {}});
  }
  Bundle bundle(steps);
  bundle.run(3);
  for (const GpuNode& node : nodes) {
    for (size_t place : kPlaces) {
      EXPECT_TRUE(node.inputs()[place].is_intact());
      in_place.push_back(node.inputs()[place].bytes());
    }
  }
  EXPECT_EQ(in_place, apart);
}

// The matrices of a layer of BERT LARGE, and twelve vectors.
TEST_F(CudaLambBundles, ShowTheirTimes) {
  std::deque<GpuNode> nodes;
  for (int i = 0; i < 16; ++i) {
    constexpr int64_t kColumns[] = {3072, 1024, 4096, 4096};
    Shape shape = i < 4 ? Shape{1024, kColumns[i]} : Shape{1024};
    nodes.emplace_back(rounded(lamb_spec(shape, kHalfInputs, kHalfOutputs),
                               {Rounding::stochastic, Rounding::nearest_even}));
  }
  Bundle bundle(steps_of(nodes, BundleKind::lamb_steps));
  print_time("16 lamb steps of 12.6 M numbers", bundle);
}

}  // namespace
}  // namespace sigma1
