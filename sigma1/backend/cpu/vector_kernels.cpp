// The loops of vector_kernels.h in the compiler's vector types. SIGMA1_KERNELS names the table in
// the build for one instruction set.
#include "sigma1/backend/cpu/vector_kernels.h"

#include "sigma1/backend/cpu/loop_kernels.h"
#include "sigma1/backend/cpu/math_kernels.h"

namespace sigma1::cpu {
namespace {

// Calls body with the function as a type.
template <class Body>
void with_function(Activation f, Body body) {
  switch (f) {
    case Activation::relu:
      return body(Relu());
    case Activation::gelu:
      return body(Gelu());
    case Activation::gelu_tanh:
      return body(GeluTanh());
    case Activation::tanh:
      return body(Tanh());
    case Activation::sigmoid:
      return body(Sigmoid());
    case Activation::silu:
      return body(Silu());
    case Activation::softplus:
      return body(Softplus());
    case Activation::exp:
      return body(Exp());
    case Activation::log:
      return body(Log());
  }
}

[[gnu::flatten]] void activation(Activation f, const float* x, float* y, int64_t n, float factor) {
  with_function(f, [=]<class F>(F) {
    for_vectors(n, [=](auto in, auto out) { out(y, factor * F::value(in(x))); });
  });
}

[[gnu::flatten]] void activation_grad(Activation f, const float* x, const float* dy, float* dx,
                                      int64_t n, float factor) {
  with_function(f, [=]<class F>(F) {
    for_vectors(n, [=](auto in, auto out) { out(dx, factor * (F::derivative(in(x)) * in(dy))); });
  });
}

[[gnu::flatten]] void scale(const float* x, float* y, int64_t n, float factor) {
  for_vectors(n, [=](auto in, auto out) { out(y, factor * in(x)); });
}

[[gnu::flatten]] void add_scaled(const float* x, float* y, int64_t n, float factor) {
  for_vectors(n, [=](auto in, auto out) { out(y, fused(all(factor), in(x), in(y))); });
}

[[gnu::flatten]] void combine(const float* x, const float* y, float* z, int64_t n, float a,
                              float b) {
  for_vectors(n, [=](auto in, auto out) { out(z, fused(all(a), in(x), b * in(y))); });
}

[[gnu::flatten]] void multiply(const float* x, const float* y, float* z, int64_t n, float factor) {
  for_vectors(n, [=](auto in, auto out) { out(z, factor * (in(x)*in(y))); });
}

[[gnu::flatten]] void multiply_add(const float* x, const float* y, float* z, int64_t n) {
  for_vectors(n, [=](auto in, auto out) { out(z, fused(in(x), in(y), in(z))); });
}

[[gnu::flatten]] void scale_add(const float* x, const float* y, float* z, int64_t n, float factor) {
  for_vectors(n, [=](auto in, auto out) { out(z, factor * (in(x) + in(y))); });
}

[[gnu::flatten]] void multiply_shifted(const float* x, const float* y, float* z, int64_t n,
                                       float shift, float factor) {
  for_vectors(n, [=](auto in, auto out) { out(z, factor * (in(x) * (in(y)-shift))); });
}

[[gnu::flatten]] float sum(const float* x, int64_t n) {
  return sum_vectors(n, [=](auto in, auto) { return in(x); });
}

[[gnu::flatten]] float dot(const float* x, const float* y, int64_t n) {
  return sum_vectors(n, [=](auto in, auto) { return in(x)*in(y); });
}

[[gnu::flatten]] float exp_sum(const float* x, float* y, int64_t n, float multiplier, float shift) {
  return sum_vectors(n, [=](auto in, auto out) {
    Floats e = exponential(fused(all(multiplier), in(x), all(-shift)));
    out(y, e);
    return e;
  });
}

[[gnu::flatten]] float largest(const float* x, int64_t n) {
  float lanes[kLanes];
  Floats most = all(-__builtin_inff());
  int64_t i = 0;
  for (; i + kStride <= n; i += kStride) {
    Floats next = load(x + i);
    most = next > most ? next : most;
  }
  store<float>(lanes, most);
  float result = lanes[0];
  for (size_t k = 1; k < kLanes; ++k) result = lanes[k] > result ? lanes[k] : result;
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

// Of the bits without sign, which are in the order of the numbers, with NaN last.
[[gnu::flatten]] uint32_t largest_bits(const float* x, int64_t n) {
  uint32_t lanes[kLanes];
  Words most{};
  for_vectors(n, [&](auto in, auto) {
    Words next = as_words(in(x)) & ~kSign;
    most = next > most ? next : most;
  });
  store<uint32_t>(lanes, most);
  uint32_t result = 0;
  for (uint32_t lane : lanes) result = lane > result ? lane : result;
  return result;
}

float largest_magnitude(const float* x, int64_t n) {
  uint32_t bits = largest_bits(x, n);
  return __builtin_bit_cast(float, bits < kInfinity ? bits : kInfinity);
}

bool all_finite(const float* x, int64_t n) { return largest_bits(x, n) < kInfinity; }

[[gnu::flatten]] NormRow norm_row(const float* x, int64_t n, float eps, bool centred) {
  auto count = static_cast<float>(n);
  float mean = centred ? sum(x, n) / count : 0;
  float square = sum_vectors(n, [=](auto in, auto) {
    Floats difference = in(x)-mean;
    return difference * difference;
  });
  // Not the scalar one, which may call the library for a negative number.
  return {mean, 1 / square_root(all(square / count + eps))[0]};
}

template <bool has_w, bool has_c>
void normalise_row(const float* x, const float* w, const float* c, float* y, int64_t n, NormRow row,
                   float factor) {
  for_vectors(n, [=](auto in, auto out) {
    Floats value = (in(x)-row.mean) * row.inverse_scale;
    if constexpr (has_w) value *= in(w);
    if constexpr (has_c) value += in(c);
    out(y, factor * value);
  });
}

[[gnu::flatten]] void normalise(const float* x, const float* w, const float* c, float* y, int64_t n,
                                NormRow row, float factor) {
  if (w && c) return normalise_row<true, true>(x, w, c, y, n, row, factor);
  if (w) return normalise_row<true, false>(x, w, c, y, n, row, factor);
  if (c) return normalise_row<false, true>(x, w, c, y, n, row, factor);
  normalise_row<false, false>(x, w, c, y, n, row, factor);
}

template <bool has_w>
void norm_grad_row(const float* x, const float* w, const float* dy, float* dx, int64_t n,
                   NormRow row, bool centred, float factor) {
  auto dxhat = [=](auto in) {
    if constexpr (has_w)
      return in(dy)*in(w);
    else
      return in(dy);
  };
  auto xhat = [=](auto in) { return (in(x)-row.mean) * row.inverse_scale; };
  auto count = static_cast<float>(n);
  float mean = centred ? sum_vectors(n, [=](auto in, auto) { return dxhat(in); }) / count : 0;
  float along = sum_vectors(n, [=](auto in, auto) { return dxhat(in) * xhat(in); }) / count;
  float outer = factor * row.inverse_scale;
  for_vectors(n,
              [=](auto in, auto out) { out(dx, outer * (dxhat(in) - mean - xhat(in) * along)); });
}

[[gnu::flatten]] void norm_grad(const float* x, const float* w, const float* dy, float* dx,
                                int64_t n, NormRow row, bool centred, float factor) {
  w ? norm_grad_row<true>(x, w, dy, dx, n, row, centred, factor)
    : norm_grad_row<false>(x, w, dy, dx, n, row, centred, factor);
}

[[gnu::flatten]] void norm_weight_grad(const float* x, const float* dy, float* dw, float* dc,
                                       int64_t n, NormRow row) {
  for_vectors(n, [=](auto in, auto out) {
    out(dw, in(dw) + in(dy) * ((in(x)-row.mean) * row.inverse_scale));
  });
  if (!dc) return;
  for_vectors(n, [=](auto in, auto out) { out(dc, in(dc) + in(dy)); });
}

[[gnu::flatten]] void adam_direction(const float* param, const float* grad, float* m, float* v,
                                     float* direction, int64_t n,
                                     const AdamConstants& shared_constants) {
  const AdamConstants k = shared_constants;  // a copy that no output can alias
  float coupled_decay = k.decoupled ? 0 : k.weight_decay;
  float decoupled_decay = k.decoupled ? k.weight_decay : 0;
  for_vectors(n, [=](auto in, auto out) {
    Floats p = in(param);
    Floats g = fused(all(coupled_decay), p, k.gradient_scale * in(grad));
    Floats mean = fused(all(k.beta1), in(m), k.complement1 * g);
    Floats mean_square = fused(all(k.beta2), in(v), k.complement2 * g * g);
    out(m, mean);
    out(v, mean_square);
    Floats size = square_root(mean_square * k.inverse_correction2) + k.epsilon;
    Floats toward = size == 0 ? Floats{} : mean * k.inverse_correction1 / size;
    out(direction, fused(all(decoupled_decay), p, toward));
  });
}

[[gnu::flatten]] void dropout(const float* x, float* y, int64_t n,
                              const DropoutConstants& shared_constants) {
  const DropoutConstants k = shared_constants;
  constexpr int64_t kBlock = 256;  // elements between two refills of the random numbers
  uint32_t words[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    int64_t count = n - begin < kBlock ? n - begin : kBlock;
    detail::fill_random(words, static_cast<size_t>(count),
                        k.first_index + static_cast<uint64_t>(begin), k.key, k.step);
    const float *random = reinterpret_cast<const float*>(words), *from = x + begin;
    float* to = y + begin;
    for_vectors(count, [=](auto in, auto out) {
      out(to, as_words(in(random)) > k.last_dropped ? k.factor * in(from) : Floats{});
    });
  }
}

[[gnu::flatten]] void truncate_to_bf16(const float* x, uint16_t* y, int64_t n) {
  int64_t i = 0;
  for (; i + kStride <= n; i += kStride) {
    Words bits = as_words(load(x + i));
    store<uint16_t>(y + i, __builtin_convertvector(bits >> 16, detail::Vector<uint16_t>));
  }
  for (; i < n; ++i) {
    y[i] = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, x[i]) >> 16);
  }
}

void look_up(const uint8_t* codes, const uint16_t* table, uint16_t* y, int64_t n) {
  int64_t i = 0;
#ifdef __AVX512BW__
  constexpr int64_t kAtOnce = 32;
  const WideTable wide(table);
  for (; i + kAtOnce <= n; i += kAtOnce) {
    __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
    _mm512_storeu_si512(y + i, wide.look_up(_mm512_cvtepu8_epi16(bytes)));
  }
#endif
  for (; i < n; ++i) y[i] = table[codes[i]];
}

}  // namespace

const VectorKernels SIGMA1_KERNELS{
    .activation = activation,
    .activation_grad = activation_grad,
    .scale = scale,
    .add_scaled = add_scaled,
    .combine = combine,
    .multiply = multiply,
    .multiply_add = multiply_add,
    .scale_add = scale_add,
    .sum = sum,
    .dot = dot,
    .largest = largest,
    .largest_magnitude = largest_magnitude,
    .exp_sum = exp_sum,
    .multiply_shifted = multiply_shifted,
    .norm_row = norm_row,
    .normalise = normalise,
    .norm_grad = norm_grad,
    .norm_weight_grad = norm_weight_grad,
    .adam_direction = adam_direction,
    .dropout = dropout,
    .all_finite = all_finite,
    .truncate_to_bf16 = truncate_to_bf16,
    .look_up = look_up,
};

}  // namespace sigma1::cpu
