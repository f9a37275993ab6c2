// What line chains of a known form do to a row, wherever they keep it: sums of two, a norm's
// moments, its gradient, and what comes behind. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/line_kernel.cuh"

namespace sigma1::cuda {

struct NoLineSums {
  static constexpr bool kAreFound = false;
};

// Where Sums over rows are found, a team has one row after another.
template <Type kType, class Warps, int kPacks, class Sums = NoLineSums>
class LineSteps {
 public:
  using Team = Warps;
  static constexpr int kStride = kTurnStride<Team, kPacks>;

 protected:
  using Codes = EightCodes<kType>;
  template <class... Rooms>
  __device__ LineSteps(const LineCode& code, int64_t row, Rooms&... of_sums)
      : code_(code), first_(int64_t{row} * code.width + Team::column(0)), sums_(of_sums...) {}

  static constexpr uint32_t kOnes = kType == Type::fp16 ? 0x3c003c00 : 0x3f803f80;

  // Eight of a norm's weights or biases, or what stands for them where there are none.
  __device__ __forceinline__ Codes vector_pack(const View& from, int pack,
                                               uint32_t otherwise) const {
    const uint4 four = load_16(static_cast<const uint16_t*>(from.data) + Team::column(pack),
                               from.data != nullptr && is_inside(pack), otherwise);
    return {four.x, four.y, four.z, four.w};
  }

  // Makes the compiler forget the numbers that it made of codes: they take twice the registers.
  __device__ __forceinline__ static void keep_codes(Codes (&row)[kPacks]) {
#pragma unroll
    for (Codes& pack : row) {
#pragma unroll
      for (uint32_t& word : pack.words) asm volatile("" : "+r"(word));
    }
  }

  __device__ bool is_inside(int pack) const { return Team::column(pack) < code_.width; }

  __device__ __forceinline__ static Eight join(const LineStep& step, const Eight& current,
                                               const Eight& other) {
    Eight result;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      result.at[k] = fmaf(step.of_current, current.at[k], step.of_other * other.at[k]);
    }
    return result;
  }

  // Eight of `first` and the others, by the first kCount steps; `other(s)` is what step s adds.
  template <int kCount, class Other>
  __device__ __forceinline__ Codes joined(int pack, Codes first, Other other) {
    Eight sum = first.numbers();
#pragma unroll
    for (int s = 0; s < kCount; ++s) {
      const LineStep& step = code_.steps[s];
      sum = join(step, sum, other(s).numbers());
      if (!step.ends) continue;
      first = rounded(step, pack, sum);
      sum = first.numbers();
    }
    return first;
  }

  // As 16 bits, and stored where it is wanted.
  __device__ __forceinline__ Codes rounded(const LineStep& step, int pack, Eight numbers) {
    if (step.out.saturates) saturate(numbers, kType);
    Codes codes = Codes::of(numbers, false);
    if (step.out.data && is_inside(pack)) codes.write(step.out.data, offset(pack));
    if constexpr (Sums::kAreFound) {
      if (step.is_summed) sums_.add(kColumnSum, pack, codes.numbers());
    }
    return codes;
  }

  __device__ __forceinline__ NormRow moments(const LineStep& norm, Codes (&row)[kPacks]) const {
    float mean = 0, square = 0;
    if (norm.centred) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        Eight x = row[i].numbers();
#pragma unroll
        for (float each : x.at) mean += each;
      }
      mean = Team::template sum_at<0>(mean) * code_.share;
      keep_codes(row);
    }
    // Around the mean rather than E[x²] − μ², which loses digits.
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight x = row[i].numbers();
      float shift = is_inside(i) ? mean : 0;
#pragma unroll
      for (float each : x.at) square += (each - shift) * (each - shift);
    }
    keep_codes(row);
    return {mean, rsqrtf(Team::template sum_at<1>(square) * code_.share + norm.eps)};
  }

  // The gradient with respect to the rows, in two halves: dx̂ of all packs with their parts of two
  // sums over the row, of dx̂ and of dx̂·x̂; then dx, where `sums` are those of the team. What w and
  // c get is summed over all rows, here or elsewhere.
  __device__ __forceinline__ Eight find_dxhat(const NormRow& norm, int pack, const Codes& dy_codes,
                                              const Codes& w, const Codes& x, float (&sums)[2]) {
    const Eight dy = dy_codes.numbers(), weights = w.numbers(), numbers = x.numbers();
    const float shift = -norm.mean * norm.inverse_scale;
    Eight dxhat, of_weight;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float xhat = fmaf(numbers.at[k], norm.inverse_scale, shift);
      dxhat.at[k] = dy.at[k] * weights.at[k];
      sums[0] += dxhat.at[k];
      sums[1] += dxhat.at[k] * xhat;
      of_weight.at[k] = dy.at[k] * xhat;
    }
    if constexpr (Sums::kAreFound) {
      sums_.add(kWeightSum, pack, of_weight);
      sums_.add(kBiasSum, pack, dy);
    }
    return dxhat;
  }

  // factor/σ·(dx̂ − mean of dx̂ − x̂·mean of dx̂·x̂), as a sum of multiples of dx̂, of x and of 1.
  struct GradientRow {
    float of_dxhat, of_x, rest;

    __device__ GradientRow(const LineStep& step, const NormRow& norm, float (&sums)[2],
                           float share) {
      const float mean = step.centred ? sums[0] * share : 0, along = sums[1] * share;
      of_dxhat = step.factor * norm.inverse_scale;
      of_x = -of_dxhat * along * norm.inverse_scale;
      rest = fmaf(-of_x, norm.mean, -of_dxhat * mean);
    }
    __device__ Eight dx(const Eight& dxhat, const Codes& x) const {
      const Eight numbers = x.numbers();
      Eight result;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        result.at[k] = fmaf(of_dxhat, dxhat.at[k], fmaf(of_x, numbers.at[k], rest));
      }
      return result;
    }
  };

  // What comes behind a norm, which is step kNorm, and left these numbers: kAfter sums, to which
  // `other(k)` adds, and a cast.
  template <int kNorm, int kAfter, class Other>
  __device__ __forceinline__ void finish_norm(int pack, Eight numbers, Other other,
                                              uint32_t* room) {
    const LineStep* step = &code_.steps[kNorm];
#pragma unroll
    for (int k = 0; k < kAfter; ++k) {
      if (step->ends) numbers = rounded(*step, pack, numbers).numbers();
      ++step;
      numbers = join(*step, numbers, other(k).numbers());
    }
    if (code_.casts) {
      numbers = rounded(*step, pack, numbers).numbers();
      ++step;
#pragma unroll
      for (float& each : numbers.at) each *= step->factor;
    }
    if (is_inside(pack)) put(*step, pack, numbers, room);
  }

  // Of the row's numbers.
  __device__ int64_t offset(int pack) const { return first_ + Team::from_first(pack); }

  const LineCode& code_;
  int64_t first_;  // number of the thread's
  Sums sums_;

 private:
  __device__ __forceinline__ void put(const LineStep& step, int pack, const Eight& numbers,
                                      uint32_t* room) {
    if (step.out.type == Type::e4m3) return put_narrow<Type::e4m3>(step, pack, numbers, room);
    if (step.out.type == Type::e5m2) return put_narrow<Type::e5m2>(step, pack, numbers, room);
    rounded(step, pack, numbers);
  }

  template <Type kOut>
  __device__ __forceinline__ void put_narrow(const LineStep& step, int pack, const Eight& numbers,
                                             uint32_t* room) const {
    const int column = Team::column(pack);
    const auto codes = EightCodes<kOut>::of(numbers, true);
    if (step.out.data) codes.write(step.out.data, offset(pack));
    if (step.out.turns) put_for_turn(room, column, codes.words[0], codes.words[1]);
  }
};

}  // namespace sigma1::cuda
