// What sigma1/backend/cuda/cluster_instructions.cuh has, on a CPU.
#pragma once

#include "sigma1/backend/cuda/tma.cuh"

namespace sigma1::cuda {

inline void arrive_at_cluster() {
  host_gpu::self().reads_others = false;
  host_gpu::self().arrival = host_gpu::cluster->meeting.arrive(host_gpu::cluster->threads);
}
inline void wait_for_cluster() { host_gpu::cluster->meeting.wait(host_gpu::self().arrival); }
inline void be_done_with_others() {
  if (host_gpu::self().reads_others) {
    std::fprintf(stderr, "a block may leave while another reads from it\n");
    std::abort();
  }
  arrive_at_cluster();
}
inline void be_done_reading_others() { arrive_at_cluster(); }

inline uint32_t in_block(uint32_t place, int rank) {
  return static_cast<uint32_t>(rank) << host_gpu::kRankShift | (place & host_gpu::kPlaces);
}
inline void send_16(uint32_t to, uint32_t barrier, uint4 pairs) {
  host_gpu::bring_late(to, 16, barrier, [=] { host_gpu::store(to, pairs); });
}
inline void send_bytes(uint32_t to, uint32_t barrier, uint32_t from, int bytes) {
  host_gpu::bring_late(to, bytes, barrier, [=] {
    for (uint32_t i = 0; i < static_cast<uint32_t>(bytes); i += 16) {
      host_gpu::store(to + i, host_gpu::load<uint4>(from + i));
    }
  });
}
inline void arrive_at_other(uint32_t barrier) { host_gpu::arrive(barrier, 1, 0); }
inline float4 read_from_block(uint32_t place, int rank) {
  host_gpu::self().reads_others = true;
  auto bits = host_gpu::load<uint4>(in_block(place, rank));
  return {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
          __uint_as_float(bits.w)};
}

inline uint32_t load_4(uint32_t from) { return host_gpu::load<uint32_t>(from); }
inline uint2 load_8(uint32_t from) { return host_gpu::load<uint2>(from); }
inline uint4 load_16(uint32_t from) { return host_gpu::load<uint4>(from); }
inline void store_4(uint32_t to, uint32_t bits) { host_gpu::store(to, bits); }
inline void store_8(uint32_t to, uint2 pairs) { host_gpu::store(to, pairs); }

inline void load_matrix_x2(uint32_t (&to)[2], uint32_t row) { load_matrices(to, row, false); }
inline void load_matrix_x2_transposed(uint32_t (&to)[2], uint32_t row) {
  load_matrices(to, row, true);
}
inline void store_matrix_x2(uint32_t row, uint32_t first, uint32_t second) {
  const uint32_t both[] = {first, second};
  store_matrices(row, both);
}

template <class Element>
void unpack(uint32_t pair, float& first, float& second) {
  first = number_of<Element>(pair, 0);
  second = number_of<Element>(pair, 1);
}

}  // namespace sigma1::cuda
