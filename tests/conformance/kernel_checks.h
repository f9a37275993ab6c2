// What every kernel is held to: its op's reference, in any format, in place and on any number of
// threads.
#pragma once

#include "tests/conformance/case.h"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {

// A case with inputs, which take longer to draw than most kernels to run.
struct Sample {
  const ConformanceCase& c;
  std::vector<Tensor> inputs;

  const Device& device;

  explicit Sample(const ConformanceCase& of, const Device& on = cpu_device());
  KernelCall call(const Storage& storage) const {
    return {*c.op, c.inputs, c.attributes, storage, inputs, device};
  }
};

// How tensors are stored in the cases that every kernel runs.
std::span<const Storage> all_storages();

// The op's own evaluation on the inputs as stored, times the factors.
std::vector<Tensor> reference(const ConformanceCase& c, const KernelCall& call);

// The kernel computes in fp32 and rounds once: between the roundings of the two numbers that are
// as far from the exact one as fp32 may be. `codec` null: fp32.
void expect_close(const Tensor& got, const Tensor& want, const Codec* codec);
void expect_reference(const Sample& sample, const Storage& storage);
void expect_same_on_threads(const Sample& sample, const Storage& storage);
void expect_same_in_place(const Sample& sample, const Storage& storage);
// Rounds stochastically: every element by random bits of its own, wherever rows and tiles begin.
void expect_own_random_bits(const Sample& sample);

}  // namespace sigma1
