// Rows on their way to teams that take one after another: as soon as a thread has read its part of
// an input's row from shared memory, a copy that needs no registers brings the part of the next one
// there. So all inputs of a row are under way while the row before it is computed. Private to this
// folder.
#pragma once

#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/line_plan.cuh"
#include "sigma1/backend/cuda/mma.cuh"

namespace sigma1::cuda {

template <Type kType, class Team, int kInputs, int kPacks>
class LineStage {
 public:
  using Codes = EightCodes<kType>;

  // Of a block. No thread sees another's place.
  struct Room {
    uint4 packs[kInputs][kPacks][Team::kBlockThreads];
  };

  __device__ LineStage(const LineCode& code, Room& room) : code_(code), room_(room) {}

  // For a row of so many inputs, of which the thread has read all rows that it asked for before:
  // its numbers from `first_number` on, zeros behind the row's end and where it is not `inside`.
  __device__ __forceinline__ void ask(int first, int count, int64_t first_number, bool inside) {
#pragma unroll
    for (int k = first; k < first + count; ++k) {
      const auto* from = static_cast<const std::byte*>(code_.form_inputs[k].data);
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        copy_16_async(&room_.packs[k][i][threadIdx.x],
                      from + (first_number + Team::from_first(i)) * Codes::kBytes,
                      inside && Team::column(i) < code_.width);
      }
    }
    commit_copies();
  }

  // Until all is there but what the last kLater calls have asked for.
  template <int kLater>
  __device__ __forceinline__ void wait() const {
    wait_copies<kLater>();
  }

  __device__ __forceinline__ Codes pack(int input, int pack) const {
    const uint4 four = room_.packs[input][pack][threadIdx.x];
    return {four.x, four.y, four.z, four.w};
  }

 private:
  const LineCode& code_;
  Room& room_;
};

}  // namespace sigma1::cuda
