// What bundle.cu puts together: each kind of bundle, and the tables that all of them keep in device
// memory. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/bundle.cuh"
#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1::cuda {

// An array that kernels read, written once.
template <class T>
class DeviceTable {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceTable(const Device& device, std::span<const T> rows)
      : count_(static_cast<unsigned>(rows.size())),
        bytes_(device, static_cast<int64_t>(rows.size_bytes())) {
    device.write(bytes_.data(), rows.data(), bytes_.size());
  }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  unsigned count() const { return count_; }

 private:
  unsigned count_;
  DeviceBytes bytes_;
};

bool is_bundled_product(const OpDef& op, const Launch& launch);
std::unique_ptr<Chain> bundle_products(const Device& device, std::span<const ChainStep> steps);

bool is_bundled_sum(const OpDef& op, const Launch& launch);
std::unique_ptr<Chain> bundle_sums(const Device& device, std::span<const ChainStep> steps);

bool is_bundled_adam_step(const OpDef& op, const Launch& launch);
// Copies of the new weights that their kernel writes are taken from `casts`, here and below.
std::unique_ptr<Chain> bundle_adam_steps(const Device& device, std::span<const ChainStep> steps,
                                         std::vector<const ChainStep*>& casts);

bool is_bundled_lamb_step(const OpDef& op, const Launch& launch);
std::unique_ptr<Chain> bundle_lamb_steps(const Device& device, std::span<const ChainStep> steps,
                                         std::vector<const ChainStep*>& casts);

// Of a norm y = x̂·w + c over rows of n: dw = Σ dy·x̂ and dc = Σ dy, over all rows.
struct NormWeightTask {
  View x, dy;   // [rows, n]
  View dw, dc;  // [n]; dc without data where there is no c
  float dw_factor = 1, dc_factor = 1;
  float eps = 0;
  int64_t rows = 0, n = 0;
  bool centred = false;  // layer_norm, else rms_norm

  static constexpr int64_t kMostColumns = 512;
};

bool is_bundled_norm_weight_gradient(const OpDef& op, const Launch& launch);
NormWeightTask norm_weight_task(const OpDef& op, const Launch& launch);
std::unique_ptr<Chain> bundle_norm_weight_gradients(const Device& device,
                                                    std::span<const NormWeightTask> tasks);

}  // namespace sigma1::cuda
