#include "sigma1/backend/cuda/row_chain.cuh"

#include <cstring>

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/row_kernel.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

using RowKernel = void (*)(RowCode, RowMatrices);

template <int kRows>
RowKernel kernel_for(Type type) {
  if (type == Type::fp16) return row_chain_kernel<kRows, Type::fp16>;
  if (type == Type::bf16) return row_chain_kernel<kRows, Type::bf16>;
  return row_chain_kernel<kRows, Type::fp32>;
}

RowKernel kernel_for(const RowPlan& plan) {
  return plan.rows_of_block == 16 ? kernel_for<16>(plan.type) : kernel_for<32>(plan.type);
}

decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
  static const auto found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr unsigned kSince = 12000;
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince,
                                           cudaEnableDefault, &result),
          "row chain: looking for cuTensorMapEncodeTiled");
    if (result != cudaDriverEntryPointSuccess) throw Bug("cuda: no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return found;
}

// In boxes of half a tile, permuted as row_tiles.cuh has it; zeros behind the ends.
CUtensorMap tensor_map_of(const RowStep& product) {
  auto width = static_cast<cuuint64_t>(product.out.width);
  auto depth = static_cast<cuuint64_t>(product.depth);
  cuuint64_t sizes[2] = {width, depth};
  if (product.transposed) std::swap(sizes[0], sizes[1]);
  const cuuint64_t pitch[1] = {2 * sizes[0]};
  const cuuint32_t box[2] = {64, 64}, steps[2] = {1, 1};
  CUtensorMap map{};
  CUresult result = tensor_map_encoder()(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, const_cast<std::byte*>(product.matrix), sizes, pitch,
      box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw Bug("cuda: no tensor map: error {}", static_cast<int>(result));
  return map;
}

// Blocks of 32 rows read the weights half as often, and take less than twice as long: they are
// better where blocks of 16 would not all run at once, one to a multiprocessor.
std::optional<RowPlan> plan_by_rows(std::span<const ChainStep> steps) {
  constexpr int64_t kAtOnce = 132;
  std::optional<RowPlan> plan = plan_rows(steps, 16);
  if (!plan || plan->rows <= kAtOnce * 16) return plan;
  std::optional<RowPlan> taller = plan_rows(steps, 32);
  return taller ? std::move(taller) : std::move(plan);
}

RowPlan plan_of(std::span<const ChainStep> steps, int rows_of_block) {
  std::optional<RowPlan> plan =
      rows_of_block > 0 ? plan_rows(steps, rows_of_block) : plan_by_rows(steps);
  if (!plan) throw Bug("a row chain of {} steps does not fit", steps.size());
  return *std::move(plan);
}

void expect_aligned(const void* data) {
  if (reinterpret_cast<uintptr_t>(data) % 16 == 0) return;
  throw Bug("a row chain's tensor does not begin on 16 bytes");
}

void expect_aligned(const RowPlan& plan) {
  for (const RowStep& each : plan.steps) {
    expect_aligned(each.matrix);
    expect_aligned(each.out.memory);
  }
  for (const RowInstruction& each : plan.instructions) expect_aligned(each.out.memory);
  for (const RowCopy& each : plan.copies) expect_aligned(each.from);
}

}  // namespace

struct RowChain::Ready {
  explicit Ready(const RowPlan& plan)
      : kernel(kernel_for(plan)),
        shared_bytes(static_cast<size_t>(plan.shared_bytes())),
        blocks(static_cast<unsigned>(plan.blocks())),
        matrices(matrices_of(plan, tensor_map_of)) {
    allow_most_shared(kernel, "row chain: shared memory");
    write_code(plan);
  }
  ~Ready() { cudaFree(const_cast<uint4*>(code.code)); }
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;

  void write_code(const RowPlan& plan) {
    std::vector<std::byte> bytes = code_bytes_of(plan);
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes.size()), "row chain: memory of its code");
    code = code_of(plan, memory);
    check(cudaMemcpyAsync(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream()),
          "row chain: writing its code");
    check(cudaStreamSynchronize(stream()), "row chain: waiting for its code");
  }

  void launch() const {
    launch_kernel("row chain", kernel, {blocks, kRowChainThreads, shared_bytes}, code, matrices);
  }

  RowKernel kernel;
  size_t shared_bytes;
  unsigned blocks;
  RowMatrices matrices;
  RowCode code{};
};

RowChain::RowChain(std::vector<ChainStep> steps, int rows_of_block) {
  RowPlan plan = plan_of(steps, rows_of_block);
  expect_aligned(plan);
  ready_ = std::make_unique<Ready>(plan);
}

RowChain::~RowChain() = default;

void RowChain::run(uint64_t) { ready_->launch(); }

}  // namespace sigma1::cuda
