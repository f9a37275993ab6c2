#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/ops/attention.h"
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

const Kernel& kernel_of(const OpDef& op) {
  for (const Kernel& each : attention_kernels()) {
    if (each.op == &op) return each;
  }
  throw Bug("{} has no kernel", op.name);
}

std::vector<const OpDef*> ops_of(const Mode& mode) {
  if (mode.relative) return {&attention_op, &attention_grad_op};
  return {&attention_op, &attention_grad_op, &attention_kept_op, &attention_kept_grad_op};
}

KernelCall call(const Mode& mode, const OpDef& op, int64_t batch, int64_t heads, int64_t tq,
                int64_t tk, int64_t d) {
  Shape queries{batch, mode.causal ? tk : tq, heads * d}, keys{batch, tk, heads * d};
  std::vector<Tensor> inputs = normal_tensors({queries, keys, keys});
  if (mode.relative) inputs.push_back(normal_tensor({tk, heads * d}, "relative", 3));
  if (mode.mask) inputs.push_back(some_masked(batch, tk));
  bool kept_grad = &op == &attention_kept_grad_op;
  if (&op == &attention_grad_op || kept_grad) inputs.push_back(normal_tensor(queries, "dy", 3));
  if (kept_grad) inputs.push_back(normal_tensor(queries, "result", 3));
  if (kept_grad) inputs.push_back(normal_tensor({batch, heads, queries[1]}, "logs", 3));
  return {&kernel_of(op),
          inputs,
          {{"heads", heads},
           {"causal", mode.causal},
           {"multiplier", 0.7},
           {"has_relative", mode.relative},
           {"has_mask", mode.mask},
           {kKeepsResult, !mode.causal},
           {kResultFactor, 1.7}}};
}

// Two whole blocks of queries and a rest, of an odd width.
KernelCall odd_call(const Mode& mode, const OpDef& op) { return call(mode, op, 2, 3, 131, 150, 5); }

TEST(AttentionKernels, GiveTheReferenceOverManyBlocks) {
  for (const Mode& mode : kModes) {
    for (const OpDef* op : ops_of(mode)) expect_reference(odd_call(mode, *op));
  }
}

// So many heads that each thread keeps one head's sums to itself.
TEST(AttentionKernels, GiveTheReferenceForManyHeads) {
  for (const Mode& mode : kModes) {
    for (const OpDef* op : ops_of(mode)) expect_reference(call(mode, *op, 3, 12, 70, 70, 4));
  }
}

TEST(AttentionKernels, GiveTheReferenceForOneQueryOrKey) {
  for (const OpDef* op : ops_of({})) expect_reference(call({}, *op, 2, 2, 1, 9, 3));
  Mode placed{.causal = true, .relative = true};
  for (const OpDef* op : ops_of(placed)) expect_reference(call(placed, *op, 1, 2, 65, 65, 1));
  expect_reference(call({}, attention_op, 2, 2, 9, 1, 3));
}

TEST(AttentionKernels, ReadAndWriteFp16) {
  for (const Mode& mode : {kModes[2], kModes[4]}) {
    for (const OpDef* op : ops_of(mode)) {
      SCOPED_TRACE(op->name);
      KernelCall odd = odd_call(mode, *op);
      odd.codec = &fp16_codec();
      expect_reference(odd);
    }
  }
}

TEST(AttentionKernels, GiveTheSameBitsOnAnyThreads) {
  for (const Mode& mode : kModes) {
    for (const OpDef* op : ops_of(mode)) expect_same_on_any_threads(odd_call(mode, *op));
  }
}

}  // namespace
}  // namespace sigma1::cpu
