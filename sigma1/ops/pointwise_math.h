// The formula of every activation and its derivative, once, for host and device.
#pragma once

#include <cmath>
#include <numbers>

#ifdef __CUDACC__
#define SIGMA1_HOST_DEVICE __host__ __device__
#else
#define SIGMA1_HOST_DEVICE
#endif

namespace sigma1::pointwise {

template <class T>
SIGMA1_HOST_DEVICE T logistic(T x) {
  return 1 / (1 + std::exp(-x));
}
template <class T>
SIGMA1_HOST_DEVICE T normal_cdf(T x) {
  return T(0.5) * std::erfc(-x / std::numbers::sqrt2_v<T>);
}
template <class T>
SIGMA1_HOST_DEVICE T normal_pdf(T x) {
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
}

struct Relu {
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return x > 0 ? x : T(0);
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    return x > 0 ? T(1) : T(0);
  }
};

struct Gelu {  // x·Φ(x)
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return x * normal_cdf(x);
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    return normal_cdf(x) + x * normal_pdf(x);
  }
};

struct GeluTanh {  // the approximation of BERT and GPT-2
  template <class T>
  SIGMA1_HOST_DEVICE static T inner(T x) {
    return T(0.7978845608028654) * (x + T(0.044715) * x * x * x);
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return x / 2 * (1 + std::tanh(inner(x)));
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    T t = std::tanh(inner(x));
    T slope = T(0.7978845608028654) * (1 + 3 * T(0.044715) * x * x);
    return (1 + t) / 2 + x / 2 * (1 - t * t) * slope;
  }
};

struct Tanh {
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return std::tanh(x);
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    T t = std::tanh(x);
    return 1 - t * t;
  }
};

struct Sigmoid {
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return logistic(x);
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    T s = logistic(x);
    return s * (1 - s);
  }
};

struct Silu {
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return x * logistic(x);
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    T s = logistic(x);
    return s * (1 + x * (1 - s));
  }
};

struct Softplus {
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return (x > 0 ? x : T(0)) + std::log1p(std::exp(x > 0 ? -x : x));  // no overflow on either side
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    return logistic(x);
  }
};

struct Exp {
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return std::exp(x);
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    return std::exp(x);
  }
};

struct Log {
  template <class T>
  SIGMA1_HOST_DEVICE static T value(T x) {
    return std::log(x);
  }
  template <class T>
  SIGMA1_HOST_DEVICE static T derivative(T x) {
    return 1 / x;
  }
};

}  // namespace sigma1::pointwise
