// Line chains of the forms that Transformers have: sums, a norm or its gradient, a sum, a cast. A
// form is known to the compiler, so that all rows are asked for before the first is used, and are
// kept as 16 bits between steps: many rows are under way at once. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/line_steps.cuh"

namespace sigma1::cuda {

// A row on its way through kBefore sums, a norm and kAfter sums.
template <Type kType, class Warps, int kPacks, int kBefore, LineOp kNorm, int kAfter>
class FormLine : LineSteps<kType, Warps, kPacks> {
  using Steps = LineSteps<kType, Warps, kPacks>;
  using Codes = Steps::Codes;
  using Steps::code_;
  static constexpr bool kIsGrad = kNorm == LineOp::norm_grad;
  static constexpr int kInputs = kBefore + 1 + (kIsGrad ? 1 : 0) + kAfter;
  static_assert(kInputs <= kMostFormInputs);
  // A row's registers times those rows that are there at once, with vectors; and all else.
  static constexpr int kRows = kIsGrad ? kInputs + 1 : kInputs < 3 ? 3 : kInputs;
  static constexpr int kRowRegisters = 4 * kPacks * kRows + (kIsGrad ? 32 : 28);

 public:
  using Team = Warps;
  using Steps::kStride;
  static constexpr int kBlocks = kRowRegisters > 80 ? 2 : kRowRegisters > 64 ? 3 : 4;

  __device__ FormLine(const LineCode& code, int64_t row) : Steps(code, row) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) read(inputs_[k], code.form_inputs[k], row);
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
  __device__ __forceinline__ void read(Codes (&to)[kPacks], const LineInput& from,
                                       int64_t row) const {
    const View view{from.data, kType, false, nullptr, 0};
    if (from.rows != code_.rows) row %= from.rows;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      to[i] = ReadPacks<kType>::read(view, code_.width, row, Team::column(i));
    }
  }

  __device__ __forceinline__ void read_vector(Codes (&vector)[kPacks], const View& from,
                                              uint32_t otherwise) const {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) vector[i] = this->vector_pack(from, i, otherwise);
  }

  __device__ __forceinline__ void add_up() {
    if constexpr (kBefore > 0) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        inputs_[0][i] = this->template joined<kBefore>(i, inputs_[0][i],
                                                       [&](int s) { return inputs_[s + 1][i]; });
      }
      this->keep_codes(inputs_[0]);
    }
  }

  __device__ __forceinline__ void normalise(uint32_t* room) {
    const LineStep& step = code_.steps[kBefore];
    // Asked for before the sums over the team, which take as long as they do.
    Codes w[kPacks], c[kPacks];
    read_vector(w, step.w, Steps::kOnes);
    read_vector(c, step.c, 0);
    const NormRow norm = this->moments(step, inputs_[0]);
    if (!step.centred) Team::meet();  // the next row's only sum has the same place
    const float shift = -norm.mean * norm.inverse_scale;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight y = inputs_[0][i].numbers();
      const Eight weights = w[i].numbers(), biases = c[i].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float xhat = fmaf(y.at[k], norm.inverse_scale, shift);
        y.at[k] = step.factor * fmaf(xhat, weights.at[k], biases.at[k]);
      }
      finish(i, y, room);
    }
  }

  __device__ __forceinline__ void find_gradient(uint32_t* room) {
    const LineStep& step = code_.steps[kBefore];
    // The planner has x behind what dy is the sum of.
    Codes(&x)[kPacks] = inputs_[kBefore + 1];
    Codes w[kPacks];
    read_vector(w, step.w, Steps::kOnes);
    const NormRow norm = this->moments(step, x);
    Eight dxhat[kPacks];
    float sums[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      dxhat[i] = this->find_dxhat(norm, i, inputs_[0][i], w[i], x[i], sums);
    }
    this->keep_codes(x);
    Team::template sum_at<2>(sums);
    const typename Steps::GradientRow gradient(step, norm, sums, code_.share);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) finish(i, gradient.dx(dxhat[i], x[i]), room);
  }

  __device__ __forceinline__ void finish(int pack, const Eight& numbers, uint32_t* room) {
    this->template finish_norm<kBefore, kAfter>(
        pack, numbers, [&](int k) { return inputs_[kInputs - kAfter + k][pack]; }, room);
  }

  Codes inputs_[kInputs][kPacks];  // the first becomes the sum of those before the norm
};

}  // namespace sigma1::cuda
