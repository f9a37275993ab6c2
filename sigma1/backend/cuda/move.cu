#include "sigma1/backend/cuda/move.cuh"

#include "sigma1/backend/cuda/launch.cuh"

namespace sigma1::cuda {
namespace {

template <class Copier>
__global__ void move_elements(const __grid_constant__ Copier copier,
                              const __grid_constant__ Walk from, const __grid_constant__ Walk to,
                              int64_t count) {
  int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    auto element = copier.read(from.base + place(from.layout, i));
    copier.write(to.base + place(to.layout, i), element);
  }
}

bool is_on_16_bytes(const std::byte* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

int64_t unit_size(const Launch& launch, size_t input, size_t output) {
  const Buffer &in = launch.in(input), &out = launch.out(output);
  if (!moves_codes(launch, input, output)) {
    return input_of(in).packs && output_of(launch, output).packs ? 4 : 1;
  }
  bool reaches = is_on_16_bytes(in.data) && is_on_16_bytes(out.data);
  return reaches ? 16 / cpu::element_bytes(out) : 1;
}

Walk in_order(int64_t count) {
  Walk walk;
  walk.layout.push(count, 1);
  return walk;
}

std::optional<Walk> in_units(const Walk& walk, int64_t size) {
  Walk units = walk;
  size_t axes = walk.layout.axes;
  if (axes == 0 || walk.layout.run_stride() != 1 || walk.layout.run() % size != 0 ||
      walk.base % size != 0) {
    return std::nullopt;
  }
  units.base /= size;
  units.layout.sizes[axes - 1] /= size;
  for (size_t axis = 0; axis + 1 < axes; ++axis) {
    if (walk.layout.strides[axis] % size != 0) return std::nullopt;
    units.layout.strides[axis] /= size;
  }
  return units;
}

void move(const Launch& launch, size_t input, size_t output, const Walk& from, const Walk& to,
          int64_t count) {
  int64_t size = unit_size(launch, input, output);
  std::optional<Walk> from_units = in_units(from, size), to_units = in_units(to, size);
  if (size > 1 && from_units && to_units) {
    with_unit_copier(launch, input, output, [&]<class Copier>(const Copier& copier) {
      int64_t units = count / size;
      launch_kernel("move", move_elements<Copier>, {blocks_for(units), kThreads}, copier,
                    *from_units, *to_units, units);
    });
  } else {
    with_copier(launch, input, output, [&]<class Copier>(const Copier& copier) {
      launch_kernel("move", move_elements<Copier>, {blocks_for(count), kThreads}, copier, from, to,
                    count);
    });
  }
}

}  // namespace sigma1::cuda
