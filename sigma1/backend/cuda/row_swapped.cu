#include "sigma1/backend/cuda/row_swapped.cuh"

#include "sigma1/backend/cuda/row_swapped_product.cuh"
#include "sigma1/base/error.h"

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

// By the warp that sends: the first weights are on their way before the code is there, once all
// blocks that get them have their barriers.
template <int kCluster>
__device__ void send_for_all(SwappedRing& ring, const RowMatrices& matrices) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < matrices.count) prefetch_map(&matrices.maps[lane]);
  if (lane == 0) ring.start(kCluster);
  __syncwarp();
  arrive_at_block<kRowChainThreads>();
  if constexpr (kCluster > 1) {
    arrive_at_cluster();
    wait_for_cluster();
  }
  if (lane == 0) send_for_tiles<kCluster>(ring, matrices);
  __syncwarp();
}

template <int kCluster>
__device__ void tell_cluster(SwappedRing& ring, const RowMatrices& matrices) {
  arrive_at_cluster();
  wait_for_cluster();
  tell_used<kCluster>(ring, matrices);
  __syncwarp();
}

template <int kCluster, Type kType>
__device__ void compute(const RowCode& code, SwappedRoom& own) {
  if constexpr (kCluster > 1) arrive_at_cluster();
  std::byte* room = shared_memory() + kSwappedRoomBytes;
  for (int i = static_cast<int>(threadIdx.x); i < code.code_bytes / 16; i += kWorkers) {
    reinterpret_cast<uint4*>(room)[i] = code.code[i];
  }
  sync_block<kRowChainThreads>();
  run_swapped<kType>(code, room, own);
  if constexpr (kCluster > 1) wait_for_cluster();  // that all began
}

template <int kCluster, Type kType>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(swapped_threads(kCluster), 1)
    swapped_kernel(const RowCode code, const __grid_constant__ RowMatrices matrices) {
  auto& own = *reinterpret_cast<SwappedRoom*>(shared_memory());
  auto thread = static_cast<int>(threadIdx.x);
  if (thread < kWorkers) {
    compute<kCluster, kType>(code, own);
  } else if (thread < kRowChainThreads) {
    send_for_all<kCluster>(own.ring, matrices);
  } else if constexpr (kCluster > 1) {
    tell_cluster<kCluster>(own.ring, matrices);
  }
  if constexpr (kCluster > 1) {
    // A block stays until what it sent for has arrived everywhere.
    arrive_at_cluster();
    wait_for_cluster();
  }
}

template <int kCluster>
RowKernel kernel_for(Type type) {
  if (type == Type::fp16) return swapped_kernel<kCluster, Type::fp16>;
  if (type == Type::bf16) return swapped_kernel<kCluster, Type::bf16>;
  return swapped_kernel<kCluster, Type::fp32>;
}

}  // namespace

RowKernel swapped_row_kernel(Type type, int cluster) {
  if (cluster == 1) return kernel_for<1>(type);
  if (cluster == 2) return kernel_for<2>(type);
  if (cluster == 4) return kernel_for<4>(type);
  throw Bug("a row chain's cluster has 1, 2 or 4 blocks, not {}", cluster);
}

}  // namespace sigma1::cuda
