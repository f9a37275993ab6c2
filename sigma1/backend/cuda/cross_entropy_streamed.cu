// The cross-entropy of long rows. A row of a large vocabulary is too long for the registers of a
// block that shares its multiprocessor with another: it lies in shared memory, where each thread
// reads only what it has itself brought, and brings the next row's numbers as soon as it is done
// with this row's. So memory is busy while exponentials are computed.
#include "sigma1/backend/cuda/cross_entropy.cuh"
#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/float_instructions.cuh"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/mma.cuh"
#include "sigma1/backend/cuda/reduce.cuh"

namespace sigma1::cuda {
namespace {

constexpr int64_t kShortest = 8192;  // up to here, several rows are held in registers at once
constexpr int64_t kLongest = 112 * 1024;
constexpr int64_t kLongestOfTwo = 56 * 1024;  // of two blocks of a multiprocessor

// The larger of two numbers, twice.
template <Type kType>
__device__ uint32_t larger_pair(uint32_t a, uint32_t b) {
  if constexpr (kType == Type::fp16) {
    __half2 most = __hmax2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
    return *reinterpret_cast<uint32_t*>(&most);
  } else {
    __nv_bfloat162 most =
        __hmax2(*reinterpret_cast<__nv_bfloat162*>(&a), *reinterpret_cast<__nv_bfloat162*>(&b));
    return *reinterpret_cast<uint32_t*>(&most);
  }
}

// exp(x − largest): an error of x·log2(e) matters where the result is small only.
struct Exponential {
  static constexpr float kLog2E = 1.4426950408889634f;
  float shift;

  __device__ explicit Exponential(float largest) : shift(-kLog2E * largest) {}
  __device__ float operator()(float x) const { return fast_exp2(fmaf(kLog2E, x, shift)); }
};

// The row in shared memory, as the thread sees it.
template <Type kType>
struct StreamedRow {
  using Codes = EightCodes<kType>;
  std::byte* codes;
  int n;

  // The first of the thread's columns, and how far it is to the next.
  __device__ static int begin() { return 8 * static_cast<int>(threadIdx.x); }
  __device__ static int step() { return 8 * static_cast<int>(blockDim.x); }

  __device__ Codes at(int column) const { return Codes::at(codes, column); }
  __device__ void bring(const CrossEntropy& a, int64_t row, int column) const {
    copy_16_async(codes + column * 2,
                  static_cast<const std::byte*>(a.logits.data) + (row * a.n + column) * 2);
  }
  __device__ void bring_all(const CrossEntropy& a, int64_t row) const {
    for (int column = begin(); column < n; column += step()) bring(a, row, column);
    commit_copies();
  }

  __device__ float most() const {
    constexpr uint32_t kLowest = kType == Type::fp16 ? 0xFC00FC00 : 0xFF80FF80;  // −∞ twice
    uint32_t most = kLowest;
#pragma unroll 4
    for (int column = begin(); column < n; column += step()) {
      Codes codes_here = at(column);
#pragma unroll
      for (uint32_t each : codes_here.words) most = larger_pair<kType>(most, each);
    }
    View both{&most, kType, false, nullptr, 2};
    return fmaxf(load(both, 0), load(both, 1));
  }

  // The sum of the thread's exponentials; calls done(column) when one's numbers have been read.
  template <class Done>
  __device__ float sum(Exponential e, Done done) const {
    float sum = 0;
#pragma unroll 2
    for (int column = begin(); column < n; column += step()) {
      Eight x = at(column).numbers();
#pragma unroll
      for (float each : x.at) sum += e(each);
      done(column);
    }
    return sum;
  }

  template <class Done>
  __device__ void write_gradients(const CrossEntropy& a, int64_t row, const Target& target,
                                  Exponential e, float total, Done done) const {
    const double drow = target.gradient(a);
    const auto scale = static_cast<float>(drow / double{total}), whole = static_cast<float>(drow);
    const int hit = target.exists ? static_cast<int>(target.hit) : -8;
#pragma unroll 2
    for (int column = begin(); column < n; column += step()) {
      Eight dx = at(column).numbers();
#pragma unroll
      for (float& each : dx.at) each = e(each) * scale;
      if (column <= hit && hit < column + 8) {
#pragma unroll
        for (int k = 0; k < 8; ++k) dx.at[k] -= column + k == hit ? whole : 0;
      }
      Codes::of(dx, a.dlogits.saturates).write(a.dlogits.data, row * a.n + column);
      done(column);
    }
  }
};

template <Type kType>
__global__ void __launch_bounds__(1024, 1)
    cross_entropy_streamed(const __grid_constant__ CrossEntropy a, int64_t rows) {
  extern __shared__ __align__(16) std::byte room[];
  StreamedRow<kType> streamed{room, static_cast<int>(a.n)};
  streamed.bring_all(a, blockIdx.x);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t next = row + gridDim.x;
    auto bring_next = [&](int column) {
      if (next < rows) streamed.bring(a, next, column);
    };
    // Its logit has been read when the row's sum is there: the gradient may lie over it.
    Target target(a, row);
    wait_copies<0>();
    const float largest = block_max(streamed.most());
    const Exponential e(largest);
    float sum;
    if (a.dlogits.data == nullptr) {
      sum = block_sum(streamed.sum(e, bring_next));
    } else {
      sum = block_sum(streamed.sum(e, [](int) {}));
      streamed.write_gradients(a, row, target, e, sum, bring_next);
    }
    commit_copies();
    target.keep_loss(a, row, largest, sum);
  }
}

}  // namespace

bool stream_cross_entropy(const CrossEntropy& a, int64_t rows) {
  constexpr int64_t kMultiprocessors = 132;
  const Type type = a.logits.type;
  auto fits = [&](const View& view) { return view.type == type && packs_eight(view, a.n); };
  bool both_fit = fits(a.logits) && (a.dlogits.data == nullptr || fits(a.dlogits));
  bool is_narrow = type == Type::fp16 || type == Type::bf16;
  bool has_length = kShortest < a.n && a.n <= kLongest;
  if (!both_fit || !is_narrow || !has_length || a.logits.scale != nullptr) return false;
  const bool two = a.n <= kLongestOfTwo;
  auto* kernel =
      type == Type::fp16 ? cross_entropy_streamed<Type::fp16> : cross_entropy_streamed<Type::bf16>;
  allow_most_shared(kernel, "cross-entropy");
  auto blocks = static_cast<unsigned>(std::min(rows, kMultiprocessors * (two ? 2 : 1)));
  launch_kernel("cross-entropy", kernel, {blocks, two ? 512u : 1024u, static_cast<size_t>(a.n) * 2},
                a, rows);
  return true;
}

}  // namespace sigma1::cuda
