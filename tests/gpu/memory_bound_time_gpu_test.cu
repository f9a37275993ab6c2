// How near kernels that compute little and move much come to the speed of a copy, at the sizes of
// language models. Times are printed.
#include <gtest/gtest.h>

#include <cstdio>
#include <deque>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "tests/gpu/memory_bound_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

struct Shown {
  Spec spec;
  Storage storage = {"fp16", {"fp16"}, {"fp16"}};
  std::optional<size_t> in_place = std::nullopt;  // the output that lies where the first input does
  bool skew = false;
};

// With its tensors on the GPU.
class PlacedLaunch : public ShapedLaunch {
 public:
  explicit PlacedLaunch(const Shown& shown);
  double microseconds() const;

 private:
  std::deque<DeviceBytes> memory_;
};

// Numbers from −2 to 2, or indices below `range`: all alike, or the smaller the more frequent.
__global__ void fill(cuda::View to, float range, bool skew) {
  int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < to.count; i += stride) {
    uint32_t bits = static_cast<uint32_t>(i) * 2654435761u;
    bits ^= bits >> 15;
    bits *= 2246822519u;
    bits ^= bits >> 13;
    float uniform = static_cast<float>(bits >> 8) * 0x1p-24f;
    float index = skew ? expf(uniform * logf(range)) - 1 : uniform * range;
    cuda::store(to, i, to.type == cuda::Type::index ? floorf(index) : 4 * uniform - 2);
  }
}

PlacedLaunch::PlacedLaunch(const Shown& shown) : ShapedLaunch(shown.spec, shown.storage) {
  bool picks = spec_.op == &embedding_grad_op;
  int64_t range = picks ? spec_.attributes.get<int64_t>("rows") : inputs_[0].shape.back();
  if (spec_.op == &embedding_op) range = inputs_[0].shape.front();
  for (auto* buffers : {&inputs_, &outputs_}) {
    for (Buffer& each : *buffers) {
      each.data = memory_.emplace_back(cuda_device(), byte_count(each)).data();
      fill<<<2112, 256, 0, cuda::stream()>>>(cuda::view_of(each), static_cast<float>(range),
                                             shown.skew);
      cuda::check(cudaGetLastError(), "fill");
    }
  }
  if (shown.in_place) outputs_[*shown.in_place].data = inputs_[0].data;
}

double PlacedLaunch::microseconds() const {
  const Kernel& kernel = cuda_device().find_kernel(*spec_.op);
  int64_t room = kernel.workspace ? kernel.workspace(launch()) : 0;
  DeviceBytes workspace(cuda_device(), std::max<int64_t>(room, 1));
  Launch ready = launch({workspace.data(), static_cast<size_t>(room)});
  return microseconds_of(10, [&] { kernel.run(ready); });
}

// Gigabytes per second, read and written.
double speed_of_copy() {
  constexpr int64_t kBytes = int64_t{1} << 30;
  DeviceBytes from(cuda_device(), kBytes), to(cuda_device(), kBytes);
  double time = microseconds_of(10, [&] {
    cuda::check(
        cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, cuda::stream()),
        "copy");
  });
  return 2e-3 * static_cast<double>(kBytes) / time;
}

void show(const Shown& shown, double copy) {
  PlacedLaunch launch(shown);
  double bytes = launch.bytes(), time = launch.microseconds();
  // Of a table that is looked up, only what is picked is read.
  if (shown.spec.op == &embedding_op) {
    bytes = 4.0 * static_cast<double>(launch.launch().out().count());
  }
  double speed = 1e-3 * bytes / time;
  std::printf("%-26s %-16s %-14s %s: %9.1f us %6.0f GB/s %5.1f %% of a copy\n",
              std::string(shown.spec.op->name).c_str(),
              to_string(shown.spec.inputs[0].shape).c_str(), shown.storage.name.c_str(),
              shown.skew ? "skew" : "    ", time, speed, 100 * speed / copy);
}

std::vector<Shown> shown_cases(int64_t rows, const Axes& widths, const Axes& ffns,
                               const Axes& vocabularies) {
  const Storage to_8_bits{"fp16 to e4m3", {"fp16"}, {"e4m3"}};
  std::vector<Shown> all;
  for (int64_t n : widths) {
    all.push_back({norm(layer_norm_op, rows, n, true)});
    all.push_back({norm(layer_norm_op, rows, n, true), to_8_bits});
    all.push_back({norm(rms_norm_op, rows, n, false)});
    all.push_back({norm_grad(layer_norm_grad_op, rows, n)});
    all.push_back({weight_grad(layer_norm_weight_grad_op, rows, n, true)});
    all.push_back({column_sum(sum_op, {rows, n})});
    all.push_back({{&add_op, {{{rows, n}}, {{rows, n}}}, {}}});
  }
  for (int64_t n : ffns) {
    all.push_back({column_sum(sum_op, {rows, n})});
    all.push_back({{&gelu_op, {{{rows, n}}}, {}}});
    all.push_back({{&gelu_op, {{{rows, n}}}, {}}, to_8_bits});
    all.push_back({{&gelu_grad_op, {{{rows, n}}, {{rows, n}}}, {}}});
  }
  for (int64_t n : vocabularies) {
    all.push_back({column_sum(sum_op, {rows, n})});
    all.push_back({loss(softmax_xent_with_grad_op, rows, n), all[0].storage, 1});
    all.push_back({loss(softmax_xent_op, rows, n)});
    for (bool skew : {false, true}) {
      all.push_back({picks_grad(rows, n, widths[0]), all[0].storage, std::nullopt, skew});
    }
    Spec lookup{&embedding_op, {{{n, widths[0]}}, {{rows}, Kind::index}}, {}};
    all.push_back({lookup});
  }
  return all;
}

TEST(CudaMemoryBoundTime, IsShown) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  double copy = speed_of_copy();
  std::printf("copy: %.0f GB/s\n", copy);
  for (const Shown& each :
       shown_cases(32768, {768, 1024, 1600}, {3072, 4096, 6400}, {50304, 30528})) {
    show(each, copy);
  }
  for (const Shown& each : shown_cases(2048, {128}, {512}, {5008})) show(each, copy);
}

}  // namespace
}  // namespace sigma1
