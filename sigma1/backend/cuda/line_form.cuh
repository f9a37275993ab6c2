// Line chains of the forms that Transformers have: sums, a norm or its gradient, a sum, a cast. A
// form is known to the compiler, so that all rows are asked for before the first is used, and are
// kept as 16 bits between steps: many rows are under way at once. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/line_kernel.cuh"

namespace sigma1::cuda {

// A row on its way through kBefore sums, a norm and kAfter sums.
template <Type kType, int kWarps, int kPacks, int kBefore, LineOp kNorm, int kAfter>
class FormLine {
  static constexpr bool kIsGrad = kNorm == LineOp::norm_grad;
  static constexpr int kInputs = kBefore + 1 + (kIsGrad ? 1 : 0) + kAfter;
  static_assert(kInputs <= kMostFormInputs);
  // A row's registers times those rows that are there at once, with vectors; and all else.
  static constexpr int kRows = kIsGrad ? kInputs + 1 : kInputs < 3 ? 3 : kInputs;
  static constexpr int kRegisters = 4 * kPacks * kRows + (kIsGrad ? 32 : 28);

 public:
  using Team = LineTeam<kWarps>;
  static constexpr int kBlocks = kRegisters <= 64 ? 4 : kRegisters <= 80 ? 3 : 2;

  __device__ FormLine(const LineCode& code, int64_t row) : code_(code), row_(row) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const LineInput& from = code.form_inputs[k];
      read(inputs_[k], from.data, from.rows == code.rows ? row : row % from.rows);
    }
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

 private:
  using Codes = EightCodes<kType>;

  __device__ __forceinline__ void read(Codes (&row)[kPacks], const void* data, int64_t at) const {
    const View view{const_cast<void*>(data), kType, false, nullptr, 0};
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      row[i] = ReadPacks<kType>::read(view, code_.width, at, Team::column(i), data != nullptr);
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

  // factor·(x + y) or factor·x + second·y, without a branch.
  __device__ __forceinline__ static Eight join(const LineStep& step, const Eight& current,
                                               const Eight& other) {
    const bool adds = step.opcode == Opcode::add;
    const float first = adds ? 1 : step.factor, second = adds ? 1 : step.second;
    const float outer = adds ? step.factor : 1;
    const bool turns = step.y == kLineCurrent;
    const float of_current = turns ? second : first, of_other = turns ? first : second;
    Eight result;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      result.at[k] = outer * fmaf(of_current, current.at[k], of_other * other.at[k]);
    }
    return result;
  }

  // As 16 bits, and stored where it is wanted.
  __device__ __forceinline__ Codes rounded(const LineStep& step, int pack, Eight numbers) const {
    if (step.out.saturates) saturate(numbers, kType);
    Codes codes = Codes::of(numbers, false);
    if (step.out.data && is_inside(pack)) {
      codes.write(step.out.data, row_ * code_.width + Team::column(pack));
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
    read(w, step.w.data, 0);
    read(c, step.c.data, 0);
    const NormRow norm = moments(inputs_[0]);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight y = inputs_[0][i].numbers();
#pragma unroll
      for (float& each : y.at) each = norm.xhat(each);
      if (step.w.data) multiply(y, w[i].numbers());
      const Eight bias = c[i].numbers();  // zeros where there is none
#pragma unroll
      for (int k = 0; k < 8; ++k) y.at[k] = step.factor * (y.at[k] + bias.at[k]);
      finish(i, y, room);
    }
  }

  __device__ __forceinline__ static void multiply(Eight& numbers, const Eight& by) {
#pragma unroll
    for (int k = 0; k < 8; ++k) numbers.at[k] *= by.at[k];
  }

  // With respect to the rows alone; what w and c get is summed over all rows, elsewhere.
  __device__ __forceinline__ void find_gradient(uint32_t* room) {
    const LineStep& step = norm_step();
    // The planner has x behind what dy is the sum of.
    Codes(&x)[kPacks] = inputs_[kBefore + 1];
    Codes w[kPacks];
    read(w, step.w.data, 0);
    const NormRow norm = moments(x);
    Eight dxhat[kPacks];
    float means[2] = {0, 0};  // of dx̂ and of dx̂·x̂
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      dxhat[i] = inputs_[0][i].numbers();
      if (step.w.data) multiply(dxhat[i], w[i].numbers());
      const Eight numbers = x[i].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        means[0] += dxhat[i].at[k];
        means[1] += dxhat[i].at[k] * norm.xhat(numbers.at[k]);
      }
    }
    keep_codes(x);
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
  }

  // What comes behind the norm.
  __device__ __forceinline__ void finish(int pack, Eight numbers, uint32_t* room) const {
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
                                      uint32_t* room) const {
    if (step.out.type == Type::e4m3) return put_narrow<Type::e4m3>(step, pack, numbers, room);
    if (step.out.type == Type::e5m2) return put_narrow<Type::e5m2>(step, pack, numbers, room);
    rounded(step, pack, numbers);
  }

  template <Type kOut>
  __device__ __forceinline__ void put_narrow(const LineStep& step, int pack, const Eight& numbers,
                                             uint32_t* room) const {
    const int column = Team::column(pack);
    const auto codes = EightCodes<kOut>::of(numbers, true);
    if (step.out.data) codes.write(step.out.data, row_ * code_.width + column);
    if (step.out.turns) put_for_turn(room, column, codes.words[0], codes.words[1]);
  }

  const LineCode& code_;
  const int64_t row_;
  Codes inputs_[kInputs][kPacks];  // the first becomes the sum of those before the norm
};

}  // namespace sigma1::cuda
