#include "sigma1/backend/cuda/gemm_algorithms.cuh"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "sigma1/backend/cuda/cache_folder.cuh"
#include "sigma1/backend/device.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"

namespace sigma1::cuda::library {
namespace {

namespace fs = std::filesystem;

fs::path cache_path() {
  fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "cublaslt.txt";
}

std::string to_hex(const Algorithm& algorithm) {
  std::string text;
  for (uint64_t word : algorithm.choice.data) text += fmt::format("{:016x}", word);
  return text + fmt::format(" {} {}", algorithm.workspace, algorithm.microseconds);
}

std::optional<Algorithm> from_hex(const std::string& text) {
  Algorithm algorithm;
  constexpr size_t kDigits = 16, kWords = std::size(cublasLtMatmulAlgo_t{}.data);
  if (text.size() < kDigits * kWords + 2 ||
      text.find_first_not_of("0123456789abcdef .-+") != std::string::npos) {
    return std::nullopt;
  }
  for (size_t i = 0; i < kWords; ++i) {
    algorithm.choice.data[i] =
        std::strtoull(text.substr(kDigits * i, kDigits).c_str(), nullptr, 16);
  }
  char* end = nullptr;
  algorithm.workspace = std::strtoull(text.c_str() + kDigits * kWords, &end, 10);
  algorithm.microseconds = std::strtod(end, nullptr);
  return algorithm.microseconds > 0 ? std::optional(algorithm) : std::nullopt;
}

using Known = std::map<std::string, Algorithm>;

// Lines of "key<TAB>algorithm"; of several of a key the first counts.
Known& known_algorithms() {
  static Known known = [] {
    Known read;
    std::ifstream file(cache_path());
    for (std::string line; std::getline(file, line);) {
      size_t tab = line.find('\t');
      if (tab == std::string::npos) continue;
      std::optional<Algorithm> algorithm = from_hex(line.substr(tab + 1));
      if (algorithm) read.try_emplace(line.substr(0, tab), *algorithm);
    }
    return read;
  }();
  return known;
}

__global__ void fill(uint32_t* to, int64_t count, Type type) {
  int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    // About −1 to 1 in each format, and nothing alike: equal numbers take less power.
    uint32_t mixed = static_cast<uint32_t>(i) * 2654435761U;
    uint32_t kept = type == Type::fp32   ? 0x807fffffU
                    : type == Type::fp16 ? 0x83ff83ffU
                    : type == Type::e4m3 ? 0x87878787U
                    : type == Type::e5m2 ? 0x83838383U
                                         : 0x807f807fU;
    uint32_t one = type == Type::fp32   ? 0x3f000000U
                   : type == Type::fp16 ? 0x38003800U
                   : type == Type::e4m3 ? 0x30303030U
                   : type == Type::e5m2 ? 0x38383838U
                                        : 0x3f003f00U;
    to[i] = (mixed & kept) | one;
  }
}

class Matrix {
 public:
  Matrix(int64_t elements, Type type) {
    int64_t bytes = elements * (type == Type::fp32 ? 4 : 2) + 4;
    cuda::check(cudaMalloc(&memory_, static_cast<size_t>(bytes)), "timing products");
    fill<<<blocks_for(bytes / 4), kThreads, 0, stream()>>>(static_cast<uint32_t*>(memory_),
                                                           bytes / 4, type);
    cuda::check(cudaGetLastError(), "timing products");
  }
  ~Matrix() { cudaFree(memory_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

int64_t extent(int64_t count, int64_t step, int64_t rows, int64_t row_step) {
  return (count - 1) * step + rows * row_step;
}

// All that a call needs, and a clock.
class Trial {
 public:
  Trial(const Product& p, size_t workspace)
      : a_(extent(p.count, p.step_a, p.transpose_a ? p.k : p.m, p.lda), p.a),
        b_(extent(p.count, p.step_b, p.transpose_b ? p.n : p.k, p.ldb), p.b),
        c_(extent(p.count, p.step_c, p.m, p.ldc), p.result),
        bias_(p.n, p.result),
        workspace_(static_cast<int64_t>(workspace), Type::bf16),
        alpha_(2, Type::fp32),
        product_(p) {
    cuda::check(cudaEventCreate(&begin_), "timing products");
    cuda::check(cudaEventCreate(&end_), "timing products");
  }
  ~Trial() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Microseconds of a product, the least of a few.
  double time(const Recipe& recipe) {
    constexpr int kTries = 6;
    float least = INFINITY;
    for (int i = 0; i <= kTries; ++i) {  // the first only loads the kernel
      cuda::check(cudaEventRecord(begin_, stream()), "timing products");
      run(recipe);
      cuda::check(cudaEventRecord(end_, stream()), "timing products");
      cuda::check(cudaEventSynchronize(end_), "timing products");
      float taken = 0;
      cuda::check(cudaEventElapsedTime(&taken, begin_, end_), "timing products");
      if (i > 0) least = std::min(least, taken);
    }
    return 1e3 * static_cast<double>(least) / kProducts;
  }

 private:
  static constexpr int kProducts = 4;

  void run(const Recipe& recipe) {
    constexpr float kOne = 1;
    const float* alpha = product_.alpha_on_device ? static_cast<const float*>(alpha_.get()) : &kOne;
    const void* bias = product_.has_bias ? bias_.get() : nullptr;
    for (int i = 0; i < kProducts; ++i) {
      multiply(recipe, alpha, a_.get(), b_.get(), bias, c_.get(), workspace_.get(), stream());
    }
  }

  Matrix a_, b_, c_, bias_, workspace_, alpha_;
  const Product& product_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

std::string cache_key(const Product& p) {
  int device = 0;
  cudaDeviceProp properties{};
  cuda::check(cudaGetDevice(&device), "gemm: device");
  cuda::check(cudaGetDeviceProperties(&properties, device), "gemm: device");
  return fmt::format(
      "{} cublasLt {}: {}x{}x{}{}{} ld {} {} {} times {} by {} {} {} types {} {} {}{}{}{}{}",
      properties.name, cublasLtGetVersion(), p.m, p.n, p.k, p.transpose_a ? " ta" : "",
      p.transpose_b ? " tb" : "", p.lda, p.ldb, p.ldc, p.count, p.step_a, p.step_b, p.step_c,
      static_cast<int>(p.a), static_cast<int>(p.b), static_cast<int>(p.result),
      p.alpha_on_device ? " device" : "", p.has_bias ? " bias" : "", p.tf32 ? " tf32" : "",
      p.fast_sums ? " fast" : "");
}

std::optional<Algorithm> recall_algorithm(const std::string& key) {
  auto found = known_algorithms().find(key);
  return found == known_algorithms().end() ? std::nullopt : std::optional(found->second);
}

void remember_algorithm(const std::string& key, const Algorithm& algorithm) {
  known_algorithms().try_emplace(key, algorithm);
  fs::path path = cache_path();
  if (path.empty()) return;
  try {
    fs::create_directories(path.parent_path());
    AppendFile file(path.string());
    file.append(key + "\t" + to_hex(algorithm) + "\n");
    file.flush();
  } catch (const std::exception&) {
    // A cache that cannot be written costs the next run some seconds, no more.
  }
}

Algorithm time_algorithms(const Product& product, Recipe recipe,
                          const std::vector<Algorithm>& candidates) {
  constexpr double kAlike = 0.97;
  size_t workspace = 1;
  for (const Algorithm& each : candidates) workspace = std::max(workspace, each.workspace);
  Trial trial(product, workspace);
  Algorithm best = candidates.front();
  best.microseconds = INFINITY;
  for (const Algorithm& each : candidates) {
    recipe.algorithm = each;
    double taken = trial.time(recipe);
    if (taken >= kAlike * best.microseconds) continue;
    best = each;
    best.microseconds = taken;
  }
  return best;
}

}  // namespace sigma1::cuda::library
