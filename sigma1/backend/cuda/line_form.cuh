// Line chains of the forms that Transformers have: sums, a norm or its gradient, a sum, a cast. A
// form is known to the compiler, so that all rows are asked for before the first is used, and are
// kept as 16 bits between steps: many rows are under way at once. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/line_kernel.cuh"

namespace sigma1::cuda {

struct NoLineSums {
  static constexpr bool kAreFound = false;
};

// A row on its way through kBefore sums, a norm and kAfter sums; or, where Sums over rows are
// found, one of a team's rows after another.
template <Type kType, class Warps, int kPacks, int kBefore, LineOp kNorm, int kAfter,
          class Sums = NoLineSums>
class FormLine {
  static constexpr bool kIsGrad = kNorm == LineOp::norm_grad;
  static constexpr int kInputs = kBefore + 1 + (kIsGrad ? 1 : 0) + kAfter;
  static_assert(kInputs <= kMostFormInputs);
  // A row's registers times those rows that are there at once, with vectors; and all else.
  static constexpr int kRows = kIsGrad ? kInputs + 1 : kInputs < 3 ? 3 : kInputs;
  static constexpr int kRowRegisters = 4 * kPacks * kRows + (kIsGrad ? 32 : 28);
  static constexpr bool kSums = Sums::kAreFound;
  static_assert(!kSums || kIsGrad);
  // With sums, so many inputs of a team's next row are asked for when one is done, the others when
  // they are used. What dy is the sum of comes earlier where few rows are in registers.
  static constexpr int kHeldInputs = !kSums ? kInputs : kBefore + (kBefore > 1 ? 1 : 2);
  static constexpr bool kAhead = kSums && kInputs == kHeldInputs;
  // Registers are short with sums, and their planner knows that there are not so many rows.
  using Row = std::conditional_t<kSums, int, int64_t>;
  // With sums, what the compiler needs without spilling; and a multiprocessor's.
  static constexpr int kSumRegisters = 44 * kPacks + 36, kAllRegisters = 65536;

 public:
  using Team = Warps;
  static constexpr int kBlocks = kSums ? kAllRegisters / (kSumRegisters * Team::kBlockThreads)
                                 : kRowRegisters > 80 ? 2
                                 : kRowRegisters > 64 ? 3
                                                      : 4;

  __device__ FormLine(const LineCode& code, Row row) : FormLine(code, row, 0) {}
  // With sums: the team's rows before `end`.
  __device__ FormLine(const LineCode& code, Row row, Row end) : code_(code), row_(row), end_(end) {
#pragma unroll
    for (int k = 0; k < kHeldInputs; ++k) read(inputs_[k], k, row);
  }

  // `room` has the codes of the result that is turned.
  __device__ __forceinline__ void run(uint32_t* room) {
    add_up();
    if constexpr (kIsGrad) {
      find_gradient(room);
    } else {
      normalise(room);
    }
  }

  __device__ const Sums& sums() const { return sums_; }
  // With sums: that run() takes next.
  __device__ Row row() const { return row_; }

 private:
  using Codes = EightCodes<kType>;

  __device__ __forceinline__ void read(Codes (&to)[kPacks], int input, Row row) const {
    const LineInput& from = code_.form_inputs[input];
    const View view{from.data, kType, false, nullptr, 0};
    // The planner finds sums only where no row repeats.
    const int64_t at = kSums || from.rows == code_.rows ? row : row % from.rows;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      to[i] = ReadPacks<kType>::read(view, code_.width, at, Team::column(i), !kSums || row < end_);
    }
  }

  // Of the next row, once nobody needs this one's.
  __device__ __forceinline__ void read_next(int input) {
    read(inputs_[input], input, row_ + Team::kRows);
  }

  // What has no registers yet, from this input on, comes near.
  __device__ __forceinline__ void prefetch_next(int first_input) const {
    const Row row = row_ + Team::kRows;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (row >= end_ || !is_inside(i)) continue;
      const int64_t at = offset(row, i);
#pragma unroll
      for (int k = first_input; k < kInputs; ++k) {
        const auto* from = static_cast<const uint16_t*>(code_.form_inputs[k].data);
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
      }
    }
  }

  __device__ int64_t offset(Row row, int pack) const {
    return int64_t{row} * code_.width + Team::column(pack);
  }

  static constexpr uint32_t kOnes = kType == Type::fp16 ? 0x3c003c00 : 0x3f803f80;

  // A norm's weights or biases, or what stands for them where there are none.
  __device__ __forceinline__ void read_vector(Codes (&vector)[kPacks], const View& from,
                                              uint32_t otherwise) const {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const uint4 four = load_16(static_cast<const uint16_t*>(from.data) + Team::column(i),
                                 from.data != nullptr && is_inside(i), otherwise);
      vector[i] = {four.x, four.y, four.z, four.w};
    }
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
  __device__ const LineStep& norm_step() const { return code_.steps[kBefore]; }

  // factor·x + second·y; a sum has one factor for both.
  __device__ __forceinline__ static Eight join(const LineStep& step, const Eight& current,
                                               const Eight& other) {
    const float second = step.opcode == Opcode::add ? step.factor : step.second;
    const bool turns = step.y == kLineCurrent;
    const float of_current = turns ? second : step.factor, of_other = turns ? step.factor : second;
    Eight result;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      result.at[k] = fmaf(of_current, current.at[k], of_other * other.at[k]);
    }
    return result;
  }

  // As 16 bits, and stored where it is wanted.
  __device__ __forceinline__ Codes rounded(const LineStep& step, int pack, Eight numbers) {
    if (step.out.saturates) saturate(numbers, kType);
    Codes codes = Codes::of(numbers, false);
    if (step.out.data && is_inside(pack)) {
      codes.write(step.out.data, offset(row_, pack));
    }
    if constexpr (kSums) {
      if (step.is_summed) sums_.add(kColumnSum, pack, codes.numbers());
    }
    return codes;
  }

  __device__ __forceinline__ void add_up() {
    if constexpr (kBefore > 0) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        Eight sum = inputs_[0][i].numbers();
#pragma unroll
        for (int s = 0; s < kBefore; ++s) {
          const LineStep& step = code_.steps[s];
          sum = join(step, sum, inputs_[s + 1][i].numbers());
          if (!step.ends) continue;
          inputs_[0][i] = rounded(step, i, sum);
          sum = inputs_[0][i].numbers();
        }
      }
      keep_codes(inputs_[0]);
#pragma unroll
      for (int s = 0; kAhead && s < kBefore; ++s) read_next(s + 1);
    }
  }

  __device__ __forceinline__ NormRow moments(Codes (&row)[kPacks]) const {
    auto count = static_cast<float>(code_.width);
    float mean = 0, square = 0;
    if (norm_step().centred) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        Eight x = row[i].numbers();
#pragma unroll
        for (float each : x.at) mean += each;
      }
      mean = Team::sum(mean) / count;
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
    return {mean, 1 / sqrtf(Team::sum(square) / count + norm_step().eps)};
  }

  __device__ __forceinline__ void normalise(uint32_t* room) {
    const LineStep& step = norm_step();
    // Asked for before the sums over the team, which take as long as they do.
    Codes w[kPacks], c[kPacks];
    read_vector(w, step.w, kOnes);
    read_vector(c, step.c, 0);
    const NormRow norm = moments(inputs_[0]);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight y = inputs_[0][i].numbers();
      const Eight weights = w[i].numbers(), biases = c[i].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        y.at[k] = step.factor * fmaf(norm.xhat(y.at[k]), weights.at[k], biases.at[k]);
      }
      finish(i, y, room);
    }
  }

  // With respect to the rows alone; what w and c get is summed over all rows, here or elsewhere.
  __device__ __forceinline__ void find_gradient(uint32_t* room) {
    const LineStep& step = norm_step();
    // The planner has x behind what dy is the sum of.
    Codes(&x)[kPacks] = inputs_[kBefore + 1];
    Codes w[kPacks];
    read_vector(w, step.w, kOnes);
    if constexpr (kSums) {
      if constexpr (kHeldInputs == kBefore + 1) read(x, kBefore + 1, row_);
      prefetch_next(kAhead ? kBefore + 1 : 0);
    }
    const NormRow norm = moments(x);
    Eight dxhat[kPacks];
    float means[2] = {0, 0};  // of dx̂ and of dx̂·x̂
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const Eight dy = inputs_[0][i].numbers(), weights = w[i].numbers(), numbers = x[i].numbers();
      Eight of_weight;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float xhat = norm.xhat(numbers.at[k]);
        dxhat[i].at[k] = dy.at[k] * weights.at[k];
        means[0] += dxhat[i].at[k];
        means[1] += dxhat[i].at[k] * xhat;
        of_weight.at[k] = dy.at[k] * xhat;
      }
      if constexpr (kSums) {
        sums_.add(kWeightSum, i, of_weight);
        sums_.add(kBiasSum, i, dy);
      }
    }
    keep_codes(x);
    if constexpr (kAhead) read_next(0);
#pragma unroll
    for (int k = kBefore + 2; kSums && k < kInputs; ++k) read(inputs_[k], k, row_);
    Team::sum(means);
    auto count = static_cast<float>(code_.width);
    const float mean = step.centred ? means[0] / count : 0, along = means[1] / count;
    const float outer = step.factor * norm.inverse_scale;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const Eight numbers = x[i].numbers();
      Eight dx;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        dx.at[k] = outer * (dxhat[i].at[k] - mean - norm.xhat(numbers.at[k]) * along);
      }
      finish(i, dx, room);
    }
    if constexpr (kSums) {
#pragma unroll
      for (int k = kAhead ? kBefore + 1 : 0; k < kHeldInputs; ++k) read_next(k);
      row_ += Team::kRows;
    }
  }

  // What comes behind the norm.
  __device__ __forceinline__ void finish(int pack, Eight numbers, uint32_t* room) {
    const LineStep* step = &norm_step();
#pragma unroll
    for (int k = 0; k < kAfter; ++k) {
      if (step->ends) numbers = rounded(*step, pack, numbers).numbers();
      ++step;
      numbers = join(*step, numbers, inputs_[kInputs - kAfter + k][pack].numbers());
    }
    if (code_.casts) {
      numbers = rounded(*step, pack, numbers).numbers();
      ++step;
#pragma unroll
      for (float& each : numbers.at) each *= step->factor;
    }
    if (is_inside(pack)) put(*step, pack, numbers, room);
  }

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
    if (step.out.data) codes.write(step.out.data, offset(row_, pack));
    if (step.out.turns) put_for_turn(room, column, codes.words[0], codes.words[1]);
  }

  const LineCode& code_;
  Row row_;
  const Row end_;
  Codes inputs_[kInputs][kPacks];  // the first becomes the sum of those before the norm
  Sums sums_;
};

}  // namespace sigma1::cuda
