// The recurrent highway layer's way through time and back, one block for each sample. Private to
// this folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1::cuda {

struct RecurrentSteps {
  int batch = 0, time = 0, n_in = 0, h = 0;
  float weight_scale = 1;
  View x{}, w{}, bias{}, initial{};
  View y{}, dy{};    // of the layer, and of its gradient
  float factor = 1;  // of y
  // In the workspace: x's share of the gates' pre-activations before the first step. Where there
  // are operands they become u and c, and on the way back the gradients of the pre-activations.
  float* gates = nullptr;    // [batch, time, 2, h]
  float* weights = nullptr;  // [h, 2, h] and, where there are operands, [2, h, h] of the state's
  // Of the gradient, else null:
  float* operands = nullptr;  // [batch, time, n_in + h], x and the state before each step;
                              // tensor_products takes x from where it is
  float* dbias = nullptr;     // [batch, 2, h]
  float* dstate = nullptr;    // [batch, h]

  __host__ __device__ int64_t gates_at(int64_t row, int64_t t) const {
    return (row * time + t) * 2 * h;
  }
  // Of the state before a step.
  __host__ __device__ int64_t operand_at(int64_t row, int64_t t) const {
    return (row * time + t) * (n_in + h) + n_in;
  }
};

// What a step back needs of one number of the state.
struct StepBack {
  float u, c, before, dy;

  __device__ void load_from(const RecurrentSteps& s, int64_t row, int t, int j) {
    const float* gates = s.gates + s.gates_at(row, t) + j;
    u = gates[0];
    c = gates[s.h];
    before = s.operands[s.operand_at(row, t) + j];
    dy = load(s.dy, (row * s.time + t) * s.h + j);
  }
};

// With any weights, which advance makes fp32.
void plain_advance(const RecurrentSteps& steps);
void plain_retreat(const RecurrentSteps& steps);

// The gradients, and what each is multiplied by.
struct RecurrentResults {
  View dx, dw, dbias, dinitial;
  float factors[4];
};

// With 16-bit weights of few states; sums and states are fp32 there too.
bool suits_tensor_cores(const RecurrentSteps& steps);
void tensor_advance(const RecurrentSteps& steps);
void tensor_retreat(const RecurrentSteps& steps);

// The gradients after all steps; x has the weights' type.
bool suits_tensor_products(const RecurrentSteps& steps);
void tensor_products(const RecurrentSteps& steps, const RecurrentResults& to);

}  // namespace sigma1::cuda
