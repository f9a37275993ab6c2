#include "sigma1/backend/cpu/kernel_table.h"
#include "tests/backend/check_kernel.h"

namespace sigma1::cpu {
namespace {

struct Mode {
  bool causal = false, relative = false, mask = false;
};
constexpr Mode kModes[] = {{},
                           {.causal = true},
                           {.mask = true},
                           {.causal = true, .relative = true},
                           {.causal = true, .relative = true, .mask = true}};

// Every third key is masked, and all of the first keys of the second batch: its first queries see
// nothing when causal.
Tensor some_masked(int64_t batch, int64_t tk) {
  Tensor mask({batch, tk});
  for (int64_t i = 0; i < mask.count(); ++i) mask[i] = i % 3 != 0 && (i < tk || i > tk + 5) ? 1 : 0;
  return mask;
}

KernelCall call(const Mode& mode, bool grad, int64_t batch, int64_t heads, int64_t tq, int64_t tk,
                int64_t d) {
  Shape queries{batch, mode.causal ? tk : tq, heads * d}, keys{batch, tk, heads * d};
  std::vector<Tensor> inputs = normal_tensors({queries, keys, keys});
  if (mode.relative) inputs.push_back(normal_tensor({tk, heads * d}, "relative", 3));
  if (mode.mask) inputs.push_back(some_masked(batch, tk));
  if (grad) inputs.push_back(normal_tensor(queries, "dy", 3));
  return {&attention_kernels()[grad ? 1 : 0],
          inputs,
          {{"heads", heads},
           {"causal", mode.causal},
           {"multiplier", 0.7},
           {"has_relative", mode.relative},
           {"has_mask", mode.mask}}};
}

// Two whole blocks of queries and a rest, of an odd width.
KernelCall odd_call(const Mode& mode, bool grad) { return call(mode, grad, 2, 3, 131, 150, 5); }

TEST(AttentionKernels, GiveTheReferenceOverManyBlocks) {
  for (const Mode& mode : kModes) {
    for (bool grad : {false, true}) expect_reference(odd_call(mode, grad));
  }
}

// So many heads that each thread keeps one head's sums to itself.
TEST(AttentionKernels, GiveTheReferenceForManyHeads) {
  for (const Mode& mode : kModes) expect_reference(call(mode, true, 3, 12, 70, 70, 4));
}

TEST(AttentionKernels, GiveTheReferenceForOneQueryOrKey) {
  for (bool grad : {false, true}) {
    expect_reference(call({}, grad, 2, 2, 1, 9, 3));
    expect_reference(call({.causal = true, .relative = true}, grad, 1, 2, 65, 65, 1));
  }
  expect_reference(call({}, false, 2, 2, 9, 1, 3));
}

TEST(AttentionKernels, ReadAndWriteFp16) {
  for (bool grad : {false, true}) {
    KernelCall odd = odd_call(kModes[4], grad);
    odd.codec = &fp16_codec();
    expect_reference(odd);
  }
}

TEST(AttentionKernels, GiveTheSameBitsOnAnyThreads) {
  for (const Mode& mode : kModes) {
    for (bool grad : {false, true}) expect_same_on_any_threads(odd_call(mode, grad));
  }
}

}  // namespace
}  // namespace sigma1::cpu
