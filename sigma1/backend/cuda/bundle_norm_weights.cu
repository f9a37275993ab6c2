// Gradients of the weights and biases of norms: several blocks for each norm, half a warp for a row
// of x, which it normalises again, and each lane the sums of its columns. The last block of a norm
// to be done adds up what all of them found, in their order.
#include <algorithm>
#include <iterator>

#include "sigma1/backend/cuda/bundle_kinds.cuh"
#include "sigma1/backend/cuda/column_sums.cuh"

namespace sigma1::cuda {
namespace {

// Blocks of all narrow norms, which fit on the device at once; wide ones take more registers.
constexpr int64_t kBlocksWanted = 396;
constexpr int blocks_at_once(int packs) { return packs == 1 ? 3 : 1; }
constexpr int64_t kMinRows = 32;  // of a block, or adding up the blocks is the larger part

// A block's share of a norm. Each has all of its norm's fields, so that they are there with one
// access.
struct NormWeightPart {
  NormWeightTask task;
  bool packs;  // eight neighbours of every row of x and dy can be read at once, and of one type
  int64_t begin, end;  // rows
  int index, parts;    // which of the norm's this is, of how many
  float* partials;     // the norm's
  unsigned* done;      // its parts that are
};

// The first of a lane's eight columns of every kSumColumns.
__device__ inline int64_t column_of(int pack) {
  return pack * kSumColumns + 8 * ColumnThread().lane;
}

// Each value becomes the sum over the lanes of its half warp.
template <int kCount>
__device__ void fold_halves(float (&values)[kCount]) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    for (float& each : values) each += __shfl_xor_sync(0xFFFFFFFF, each, distance);
  }
}

// The sum of a half warp's rows' numbers.
template <class Codes, int kPacks>
__device__ float sum_of(const Codes (&x)[kPacks]) {
  float sum = 0;
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    Eight numbers = x[pack].numbers();
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += numbers.at[k];
  }
  return sum;
}

// x − mean; 0 behind the end of a row, where x is 0.
template <class Reader>
__device__ Eight centred(const typename Reader::Codes& codes, float mean, int64_t column,
                         int64_t n) {
  Eight x = codes.numbers();
  if (Reader::kWhole && column >= n) mean = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    x.at[k] = Reader::kWhole || column + k < n ? x.at[k] - mean : 0;
  }
  return x;
}

// Of a half warp's rows.
template <class Reader, int kRows, int kPacks>
struct Moments {
  using Codes = typename Reader::Codes;
  float mean[kRows], inverse_scale[kRows];

  __device__ Moments(const Codes (&x)[kRows][kPacks], const NormWeightTask& task) {
    const float part = 1 / static_cast<float>(task.n);
#pragma unroll
    for (int r = 0; r < kRows; ++r) mean[r] = task.centred ? part * sum_of(x[r]) : 0;
    if (task.centred) fold_halves(mean);
      // Around the mean rather than E[x²] − μ², which loses digits.
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      inverse_scale[r] = 0;
#pragma unroll
      for (int pack = 0; pack < kPacks; ++pack) {
        Eight x_centred = centred<Reader>(x[r][pack], mean[r], column_of(pack), task.n);
#pragma unroll
        for (int k = 0; k < 8; ++k) inverse_scale[r] += x_centred.at[k] * x_centred.at[k];
      }
    }
    fold_halves(inverse_scale);
#pragma unroll
    for (int r = 0; r < kRows; ++r) inverse_scale[r] = rsqrtf(inverse_scale[r] * part + task.eps);
  }
};

// dw and dc of a lane's columns.
template <int kPacks>
struct NormSums {
  Eight of[kPacks][2];
};

template <class Codes>
__device__ void add_products(const Codes& x_codes, const Codes& dy_codes, float mean,
                             float inverse_scale, Eight (&sums)[2]) {
  Eight x = x_codes.numbers(), dy = dy_codes.numbers();
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    sums[0].at[k] += (x.at[k] - mean) * (dy.at[k] * inverse_scale);
    sums[1].at[k] += dy.at[k];
  }
}

// kRows rows of each half warp at once, to wait for memory once.
template <class Reader, int kRows, int kPacks>
__device__ void add_rows(const NormWeightPart& part, NormSums<kPacks>& sums) {
  using Codes = typename Reader::Codes;
  const NormWeightTask& task = part.task;
  const View x_view = task.x, dy_view = task.dy;
  const int64_t n = task.n, end = part.end;
  ColumnThread self;
  // All lanes go the same rounds, as they exchange sums.
  for (int64_t begin = part.begin; begin < end; begin += kRows * self.halves) {
    Codes x[kRows][kPacks], dy[kRows][kPacks];
#pragma unroll
    for (int i = 0; i < kRows * kPacks; ++i) {
      int r = i / kPacks, pack = i % kPacks;
      int64_t row = min(begin + self.half + r * self.halves, end - 1);
      x[r][pack] = Reader::read(x_view, n, row, column_of(pack));
      dy[r][pack] = Reader::read(dy_view, n, row, column_of(pack));
    }
    Moments<Reader, kRows, kPacks> moments(x, task);
#pragma unroll
    for (int i = 0; i < kRows * kPacks; ++i) {
      int r = i / kPacks, pack = i % kPacks;
      if (begin + self.half + r * self.halves >= end) continue;
      add_products(x[r][pack], dy[r][pack], moments.mean[r], moments.inverse_scale[r],
                   sums.of[pack]);
    }
  }
}

constexpr int part_width(int packs) { return packs * 2 * kSumColumns; }

// Of norms of at most kPacks · kSumColumns columns.
template <int kPacks>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kPacks))
    sum_norms(const NormWeightPart* parts) {
  constexpr int kWidth = part_width(kPacks);
  __shared__ float of_block[kPacks][2][kSumColumns];  // dw, then dc
  const NormWeightPart& part = parts[blockIdx.x];
  const NormWeightTask& task = part.task;
  NormSums<kPacks> sums{};
  with_reader(task.x.type, part.packs, [&]<class Reader>(Reader) {
    constexpr int kRows = Reader::kAtOnce * 3 / 8 / kPacks;
    add_rows<Reader, kRows == 0 ? 1 : kRows>(part, sums);
  });
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) add_warps(sums.of[pack], of_block[pack][0]);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kWidth; i += kThreads) {
    part.partials[part.index * kWidth + i] = of_block[0][0][i];
  }
  if (!is_last(part.done, part.parts)) return;
  for (int i = static_cast<int>(threadIdx.x); i < kWidth; i += kThreads) {
    int column = i / (2 * kSumColumns) * kSumColumns + i % kSumColumns;
    bool is_dc = i / kSumColumns % 2 == 1;
    const View& to = is_dc ? task.dc : task.dw;
    if (column >= task.n || to.data == nullptr) continue;
    float sum = sum_of_parts(part.partials, part.parts, kWidth, i);
    store(to, column, sum * (is_dc ? task.dc_factor : task.dw_factor));
  }
}

constexpr int kMostPacks = NormWeightTask::kMostColumns / kSumColumns;

class NormWeights : public Chain {
 public:
  NormWeights(const Device& device, std::span<const NormWeightTask> tasks)
      : total_(total_of(tasks)),
        partials_(device, partial_floats(tasks) * int64_t{sizeof(float)}),
        done_(device, std::ssize(tasks) * int64_t{sizeof(unsigned)}),
        table_(device, parts_of(tasks)) {}

  void run(uint64_t) override {
    launch<1>(0, narrow_);
    launch<kMostPacks>(narrow_, table_.count());
  }

 private:
  static int packs_of(const NormWeightTask& task) { return task.n <= kSumColumns ? 1 : kMostPacks; }

  static double total_of(std::span<const NormWeightTask> tasks) {
    double total = 0;
    for (const NormWeightTask& each : tasks) total += numbers_of(each);
    return total;
  }
  static double numbers_of(const NormWeightTask& task) {
    return static_cast<double>(task.rows) * static_cast<double>(task.n);
  }
  int64_t count_of_parts(const NormWeightTask& task) const {
    auto share = static_cast<int64_t>(kBlocksWanted * (numbers_of(task) / total_));
    return std::clamp<int64_t>(share, 1, (task.rows + kMinRows - 1) / kMinRows);
  }
  int64_t partial_floats(std::span<const NormWeightTask> tasks) const {
    int64_t floats = 0;
    for (const NormWeightTask& each : tasks) {
      floats += count_of_parts(each) * part_width(packs_of(each));
    }
    return floats;
  }

  // Those of narrow norms first.
  std::vector<NormWeightPart> parts_of(std::span<const NormWeightTask> tasks) {
    std::vector<NormWeightPart> parts;
    auto* partials = reinterpret_cast<float*>(partials_.data());
    auto* done = reinterpret_cast<unsigned*>(done_.data());
    for (bool narrow : {true, false}) {
      for (const NormWeightTask& each : tasks) {
        if ((packs_of(each) == 1) != narrow) continue;
        add_parts(each, partials, done++, parts);
        partials += count_of_parts(each) * part_width(packs_of(each));
      }
      if (narrow) narrow_ = static_cast<unsigned>(parts.size());
    }
    return parts;
  }

  void add_parts(const NormWeightTask& task, float* partials, unsigned* done,
                 std::vector<NormWeightPart>& to) const {
    auto packs = [&](const View& view) {
      return packs_eight(view, task.n) && view.scale == nullptr;
    };
    bool all_pack = task.x.type == task.dy.type && packs(task.x) && packs(task.dy);
    int64_t count = count_of_parts(task);
    for (int64_t i = 0; i < count; ++i) {
      to.push_back({task, all_pack, i * task.rows / count, (i + 1) * task.rows / count,
                    static_cast<int>(i), static_cast<int>(count), partials, done});
    }
  }

  template <int kPacks>
  void launch(unsigned begin, unsigned end) const {
    if (begin == end) return;
    sum_norms<kPacks><<<end - begin, kThreads, 0, stream()>>>(table_.data() + begin);
    check(cudaGetLastError(), "bundle of norms' weights");
  }

  double total_;
  unsigned narrow_ = 0;  // parts
  DeviceBytes partials_, done_;
  DeviceTable<NormWeightPart> table_;
};

}  // namespace

// x, dy → dw, and dc where the norm has one.
bool is_bundled_norm_weight_gradient(const OpDef& op, const Launch& launch) {
  if (op.name != "layer_norm_weight_grad" && op.name != "rms_norm_weight_grad") return false;
  int64_t n = launch.in(0).shape.back();
  return n > 0 && n <= NormWeightTask::kMostColumns && launch.in(0).count() > 0;
}

NormWeightTask norm_weight_task(const OpDef& op, const Launch& launch) {
  bool has_dc = launch.outputs.size() > 1;
  int64_t n = launch.in(0).shape.back();
  return {.x = view_of(launch.in(0)),
          .dy = view_of(launch.in(1)),
          .dw = view_of(launch.out()),
          .dc = has_dc ? view_of(launch.out(1)) : View{},
          .dw_factor = launch.factor(),
          .dc_factor = has_dc ? launch.factor(1) : 1,
          .eps = static_cast<float>(launch.attr<double>("eps")),
          .rows = launch.in(0).count() / n,
          .n = n,
          .centred = op.name == "layer_norm_weight_grad"};
}

std::unique_ptr<Chain> bundle_norm_weight_gradients(const Device& device,
                                                    std::span<const NormWeightTask> tasks) {
  return std::make_unique<NormWeights>(device, tasks);
}

}  // namespace sigma1::cuda
