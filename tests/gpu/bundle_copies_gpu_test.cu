// Copies of new weights that an optimiser's bundle writes: in both orientations, with the bits of
// steps and casts that run one after the other. Times are printed.
#include <gtest/gtest.h>

#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "tests/gpu/bundle_checks.h"

namespace sigma1 {
namespace {

// A cast of a tensor.
class GpuCopy {
 public:
  GpuCopy(const Buffer& of, const std::string& format, bool in_both)
      : out_(of.shape, format, Rounding::nearest_even),
        turned_(of.shape, format, Rounding::nearest_even),
        input_(of),
        output_(out_.buffer()) {
    if (in_both) output_.turned = turned_.buffer().data;
  }
  GpuCopy(const GpuCopy&) = delete;
  GpuCopy& operator=(const GpuCopy&) = delete;

  const Buffer& buffer() const { return output_; }
  ChainStep step(int producer) const { return {&identity_op, launch(), {producer}}; }
  void run_alone() const {
    cuda_device().find_kernel(identity_op).run(launch());
    if (output_.turned) cuda_device().turn(output_);
  }
  // Codes as they are stored, and turned.
  Bytes bytes() const {
    Bytes all;
    for (const DeviceTensor* each : {&out_, &turned_}) {
      EXPECT_TRUE(each->is_intact());
      all.push_back(each->bytes());
      each->poison();
    }
    return all;
  }

 private:
  Launch launch() const {
    return {{&input_, 1}, {&output_, 1}, attributes_, {&factor_, 1}, {&random_, 1}, {}, 3};
  }

  DeviceTensor out_, turned_;
  Buffer input_, output_;
  Attributes attributes_;
  float factor_ = 1;
  RandomStream random_{1, "copy", 0};
};

// Steps, some of whose weights have copies.
struct Copied {
  std::deque<GpuNode> nodes;
  std::deque<GpuCopy> copies;
  std::vector<int> producers;

  void add(const NodeSpec& spec, const Formats& formats = {}, bool in_both = true) {
    const GpuNode& node = nodes.emplace_back(spec, nodes.size() + 1);
    for (const std::string& format : formats) {
      copies.emplace_back(node.outputs()[0].buffer(), format, in_both);
      producers.push_back(static_cast<int>(nodes.size()) - 1);
    }
  }
  std::vector<ChainStep> steps(BundleKind kind) const {
    std::vector<ChainStep> all = steps_of(nodes, kind);
    for (size_t i = 0; i < copies.size(); ++i) all.push_back(copies[i].step(producers[i]));
    return all;
  }
  Bytes bytes() const {
    Bytes all = outputs_of(nodes);
    for (const GpuCopy& each : copies) {
      for (std::vector<std::byte>& bytes : each.bytes()) all.push_back(std::move(bytes));
    }
    return all;
  }
};

void expect_as_alone(const Copied& copied, BundleKind kind) {
  copied.bytes();  // poisons what is not written
  for (const GpuNode& node : copied.nodes) node.run_alone();
  for (const GpuCopy& copy : copied.copies) copy.run_alone();
  Bytes alone = copied.bytes();
  Bundle bundle(copied.steps(kind));
  EXPECT_TRUE(bundle.turns());
  for (int run = 0; run < 2; ++run) {
    bundle.run(3);
    EXPECT_EQ(copied.bytes(), alone) << "run " << run;
  }
}

// As sessions store them.
NodeSpec spec_of(const OpDef& op, const Shape& shape, const std::string& weights,
                 const std::string& mean, Rounding rounding) {
  NodeSpec spec = adam_spec(shape, {weights, weights, mean, "fp32"}, {weights, mean, "fp32"});
  spec.op = &op;
  spec.roundings = {rounding, Rounding::nearest_even};
  if (&op == &lamb_step_op) spec.attributes.set("max_trust_ratio", 0.0);
  return spec;
}

void add_all_kinds(Copied& copied, const OpDef& op) {
  for (Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
    for (const char* weights : {"fp16", "bf16", "fp32"}) {
      for (const char* mean : {"fp32", weights}) {
        // Whole squares, parts of squares, a row of them, and more than two axes.
        for (const Shape& shape :
             {Shape{128, 512}, Shape{208, 80}, Shape{16, 16}, Shape{16, 1040}, Shape{3, 32, 64}}) {
          copied.add(spec_of(op, shape, weights, mean, rounding), {"e4m3"});
        }
        copied.add(spec_of(op, {96, 64}, weights, mean, rounding), {"e5m2"}, false);
        copied.add(spec_of(op, {64, 96}, weights, mean, rounding), {"e4m3", "e5m2"});
        copied.add(spec_of(op, {77, 9}, weights, mean, rounding), {"e4m3"}, false);
        copied.add(spec_of(op, {130}, weights, mean, rounding));
      }
    }
  }
  // Not plain: its copy is a cast by itself.
  NodeSpec mixed = spec_of(op, {64, 32}, "fp16", "fp32", Rounding::stochastic);
  mixed.inputs[1] = "e5m2";
  copied.add(mixed, {"e4m3"});
}

class CudaCopies : public CudaBundles {};

TEST_F(CudaCopies, AreThoseOfAdamAndThenCasts) {
  Copied copied;
  add_all_kinds(copied, adam_step_op);
  expect_as_alone(copied, BundleKind::adam_steps);
}

TEST_F(CudaCopies, AreThoseOfLambAndThenCasts) {
  Copied copied;
  add_all_kinds(copied, lamb_step_op);
  expect_as_alone(copied, BundleKind::lamb_steps);
}

// The weights are a copy themselves, and theirs comes after them.
TEST_F(CudaCopies, OfMasterWeightsFollowTheWeights) {
  Copied copied;
  copied.add(adam_spec({64, 128}, {"fp32"}, {"fp32"}), {"fp16"}, false);
  copied.copies.emplace_back(copied.copies[0].buffer(), "e4m3", true);
  copied.producers.push_back(1);
  expect_as_alone(copied, BundleKind::adam_steps);
}

TEST_F(CudaCopies, AreOfNoOtherBundles) {
  GpuNode sum({&sum_op, {{64, 32}}, {{"axes", std::vector<int64_t>{0}}}, {"fp16"}, {"fp16"}});
  GpuCopy copy(sum.outputs()[0].buffer(), "e4m3", false);
  EXPECT_THROW(Bundle({sum.step(), copy.step(0)}), Bug);
}

// The matrices of GPT-2's layers: what a cast of each would cost, and what it does on the way.
TEST_F(CudaCopies, ShowTheirTimes) {
  Copied with, without;
  for (int layer = 0; layer < 12; ++layer) {
    for (const Shape& shape :
         {Shape{768, 2304}, Shape{768, 768}, Shape{768, 3072}, Shape{3072, 768}}) {
      NodeSpec spec = spec_of(adam_step_op, shape, "fp16", "fp16", Rounding::stochastic);
      with.add(spec, {"e4m3"});
      without.add(spec);
    }
  }
  Bundle of_both(with.steps(BundleKind::adam_steps)),
      of_steps(without.steps(BundleKind::adam_steps));
  print_time("adam steps of 85 M weights", of_steps);
  print_time("the same and copies in both orientations", of_both);
}

}  // namespace
}  // namespace sigma1
