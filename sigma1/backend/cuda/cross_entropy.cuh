// What the kernels of cross-entropy share. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1::cuda {

// The rows of a cross-entropy: their losses where there is room for them, their gradients where
// there is an output for them. Views without data are left out.
struct CrossEntropy {
  View logits, targets, weights, dloss, dlogits;
  double* losses;
  double factor;  // of the gradient
  int64_t n;
};

// What a row's target asks of it.
struct Target {
  int64_t hit;
  bool exists;
  double weight;
  float logit = 0;  // of the first thread alone

  // A kernel cannot throw: a target that is no logit makes loss and gradient NaN.
  __device__ Target(const CrossEntropy& a, int64_t row)
      : hit(static_cast<const int32_t*>(a.targets.data)[row]), exists(0 <= hit && hit < a.n) {
    weight = !exists ? NAN : a.weights.data ? load(a.weights, row) : 1;
    if (exists && threadIdx.x == 0) logit = load(a.logits, row * a.n + hit);
  }

  __device__ void keep_loss(const CrossEntropy& a, int64_t row, float largest, float sum) const {
    if (a.losses == nullptr || threadIdx.x != 0) return;
    double below = exists ? double{largest} - double{logit} : 0;
    a.losses[row] = weight * (log(double{sum}) + below);
  }

  __device__ double gradient(const CrossEntropy& a) const {
    double drow = weight * a.factor;
    return a.dloss.data ? drow * double{load(a.dloss, 0)} : drow;
  }
};

// Long rows of 16-bit numbers, which pass through shared memory; false and nothing is done where
// rows are not such.
bool stream_cross_entropy(const CrossEntropy& arguments, int64_t rows);

}  // namespace sigma1::cuda
