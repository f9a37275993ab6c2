#include "sigma1/backend/cuda/row_swapped.cuh"

#include "sigma1/backend/cuda/row_swapped_product.cuh"

namespace sigma1::cuda {
namespace {

struct SwappedRoom {
  SwappedRing ring;
  alignas(16) SwappedPlaces places;
};
static_assert(sizeof(SwappedRoom) <= kSwappedRoomBytes);

template <Type kType>
__device__ void run_swapped(const RowCode& code, std::byte* room, SwappedRoom& own) {
  const auto* steps = reinterpret_cast<const RowStep*>(room);
  const auto* instructions = reinterpret_cast<const RowInstruction*>(steps + code.steps);
  const auto* copies = reinterpret_cast<const RowCopy*>(instructions + code.instructions);
  int64_t first_row = int64_t{blockIdx.x} * kSwappedRows;
  int64_t rows = code.rows - first_row;
  PanelBlock block{{room + whole_panels(code.code_bytes), instructions, first_row,
                    static_cast<int>(rows < kSwappedRows ? rows : kSwappedRows)}};
  load_inputs<kSwappedRows>(block, copies, code);
  show_to_tensor_cores();
  sync_first<kWorkers>();
  SwappedSharing sharing(own.places);
  SwappedStream stream(own.ring, sharing.part().half());
#pragma unroll 1
  for (int i = 0; i < code.steps; ++i) {
    const RowStep step = steps[i];
    if (step.waits) {
      show_to_tensor_cores();
      sync_first<kWorkers>();
    }
    if (step.op == RowOp::product) {
      multiply_swapped<kType>(block, step, stream, sharing);
    } else {
      run_by_rows<kSwappedRows, kType>(block, step);
    }
  }
}

// By the warp that sends: the first weights are on their way before the code is there.
__device__ void send_for_all(SwappedRing& ring, const RowMatrices& matrices) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < matrices.count) prefetch_map(&matrices.maps[lane]);
  if (lane == 0) ring.start();
  __syncwarp();
  arrive_at_block<kRowChainThreads>();
  if (lane == 0) send_for_tiles(ring, matrices);
}

template <Type kType>
__global__ void __launch_bounds__(kRowChainThreads, 1)
    swapped_kernel(const RowCode code, const __grid_constant__ RowMatrices matrices) {
  auto& own = *reinterpret_cast<SwappedRoom*>(shared_memory());
  std::byte* room = shared_memory() + kSwappedRoomBytes;
  auto thread = static_cast<int>(threadIdx.x);
  if (thread >= kWorkers) return send_for_all(own.ring, matrices);
  for (int i = thread; i < code.code_bytes / 16; i += kWorkers) {
    reinterpret_cast<uint4*>(room)[i] = code.code[i];
  }
  sync_block<kRowChainThreads>();
  run_swapped<kType>(code, room, own);
}

}  // namespace

RowKernel swapped_row_kernel(Type type) {
  if (type == Type::fp16) return swapped_kernel<Type::fp16>;
  if (type == Type::bf16) return swapped_kernel<Type::bf16>;
  return swapped_kernel<Type::fp32>;
}

}  // namespace sigma1::cuda
