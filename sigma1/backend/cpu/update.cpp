#include "sigma1/ops/update.h"

#include <cmath>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/pieces.h"
#include "sigma1/backend/cpu/vectors.h"

namespace sigma1::cpu {
namespace {

float attribute(const Launch& launch, std::string_view name) {
  return static_cast<float>(launch.attr<double>(name));
}

// By which this parameter learns, from the rate of all.
double rate_of(const Launch& launch, size_t input) {
  return launch.attr<double>("rate_scale") * load_one(launch.in(input));
}

// param − rate·direction, into output 0.
void store_param(const Launch& launch, int64_t first, int64_t count, const float* param,
                 const float* direction, double rate) {
  float room[kTile];
  float factor = launch.factor(0);
  float* next = target(launch.out(0), first, room);
  vectors().combine(param, direction, next, count, factor, static_cast<float>(-rate * factor));
  store(launch.out(0), first, count, next, launch.random[0]);
}

// A state as it will be overwritten: where its output lies if that is fp32.
float* load_state(const Launch& launch, size_t input, size_t output, int64_t first, int64_t count,
                  float* room) {
  float* state = target(launch.out(output), first, room);
  const float* before = load(launch.in(input), first, count, state);
  if (before != state) std::copy_n(before, count, state);
  return state;
}

void store_state(const Launch& launch, size_t output, int64_t first, int64_t count, float* state) {
  float factor = launch.factor(output);
  if (factor != 1) vectors().scale(state, state, count, factor);
  store(launch.out(output), first, count, state, launch.random[output]);
}

void run_sgd(const Launch& launch) {
  double lr = rate_of(launch, 3);
  float kept = attribute(launch, "momentum");
  float decay = attribute(launch, "weight_decay"), scale = attribute(launch, "gradient_scale");
  bool nesterov = launch.attr<bool>("nesterov");
  for_tiles(launch.in(0).count(), [&](int64_t first, int64_t count) {
    const VectorKernels& v = vectors();
    float room[3][kTile], g[kTile], ahead[kTile];
    const float* param = load(launch.in(0), first, count, room[0]);
    const float* grad = load(launch.in(1), first, count, room[1]);
    float* velocity = load_state(launch, 2, 1, first, count, room[2]);
    v.combine(grad, param, g, count, scale, decay);
    v.combine(velocity, g, velocity, count, kept, 1);
    if (nesterov) v.combine(velocity, g, ahead, count, kept, 1);
    store_param(launch, first, count, param, nesterov ? ahead : velocity, lr);
    store_state(launch, 1, first, count, velocity);
  });
}

AdamConstants adam_constants(const Launch& launch) {
  double step = load_one(launch.in(5));
  double beta1 = launch.attr<double>("beta1"), beta2 = launch.attr<double>("beta2");
  return {.beta1 = static_cast<float>(beta1),
          .beta2 = static_cast<float>(beta2),
          .epsilon = attribute(launch, "epsilon"),
          .weight_decay = attribute(launch, "weight_decay"),
          .gradient_scale = attribute(launch, "gradient_scale"),
          .complement1 = static_cast<float>(1 - beta1),
          .complement2 = static_cast<float>(1 - beta2),
          .inverse_correction1 = static_cast<float>(1 / (1 - std::pow(beta1, step))),
          .inverse_correction2 = static_cast<float>(1 / (1 - std::pow(beta2, step))),
          .decoupled = launch.attr<bool>("decoupled")};
}

// Of every tile the new m and v, stored, then use(first, count, param, direction).
template <class Use>
void for_directions(const Launch& launch, Use use) {
  AdamConstants constants = adam_constants(launch);
  for_tiles(launch.in(0).count(), [&](int64_t first, int64_t count) {
    float room[4][kTile], direction[kTile];
    const float* param = load(launch.in(0), first, count, room[0]);
    const float* grad = load(launch.in(1), first, count, room[1]);
    float* m = load_state(launch, 2, 1, first, count, room[2]);
    float* v = load_state(launch, 3, 2, first, count, room[3]);
    vectors().adam_direction(param, grad, m, v, direction, count, constants);
    store_state(launch, 1, first, count, m);
    store_state(launch, 2, first, count, v);
    use(first, count, param, direction);
  });
}

void run_adam(const Launch& launch) {
  double lr = rate_of(launch, 4);
  for_directions(launch,
                 [&](int64_t first, int64_t count, const float* param, const float* direction) {
                   store_param(launch, first, count, param, direction, lr);
                 });
}

// What LAMB keeps until the lengths are known: every tile's sums of squares, then all directions.
struct LambWorkspace {
  double *param_squares, *direction_squares;
  float* directions;

  explicit LambWorkspace(const Launch& launch)
      : param_squares(reinterpret_cast<double*>(launch.workspace.data())),
        direction_squares(param_squares + tile_count(launch.in(0).count())),
        directions(reinterpret_cast<float*>(direction_squares + tile_count(launch.in(0).count()))) {
  }
};

int64_t lamb_workspace(const Launch& launch) {
  int64_t count = launch.in(0).count();
  return 2 * tile_count(count) * static_cast<int64_t>(sizeof(double)) +
         count * static_cast<int64_t>(sizeof(float));
}

double root_of_sum(const double* terms, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += terms[i];
  return std::sqrt(sum);
}

void run_lamb(const Launch& launch) {
  LambWorkspace kept(launch);
  int64_t elements = launch.in(0).count();
  for_directions(launch,
                 [&](int64_t first, int64_t count, const float* param, const float* direction) {
                   const VectorKernels& v = vectors();
                   kept.param_squares[first / kTile] = v.dot(param, param, count);
                   kept.direction_squares[first / kTile] = v.dot(direction, direction, count);
                   std::copy_n(direction, count, kept.directions + first);
                 });
  double of_param = root_of_sum(kept.param_squares, tile_count(elements));
  double of_direction = root_of_sum(kept.direction_squares, tile_count(elements));
  double ratio = of_param > 0 && of_direction > 0 ? of_param / of_direction : 1;
  double limit = launch.attr<double>("max_trust_ratio");
  if (limit > 0) ratio = std::min(ratio, limit);
  double rate = rate_of(launch, 4) * ratio;
  for_tiles(elements, [&](int64_t first, int64_t count) {
    float room[kTile];
    const float* param = load(launch.in(0), first, count, room);
    store_param(launch, first, count, param, kept.directions + first, rate);
  });
}

bool sgd_in_place(size_t input, size_t output) { return input == (output == 0 ? 0 : 2); }
bool adam_in_place(size_t input, size_t output) { return input == (output == 0 ? 0 : output + 1); }

constexpr Kernel kKernels[] = {
    {&sgd_step_op, run_sgd, nullptr, sgd_in_place},
    {&adam_step_op, run_adam, nullptr, adam_in_place},
    {&lamb_step_op, run_lamb, lamb_workspace, adam_in_place},
};

}  // namespace

std::span<const Kernel> update_kernels() { return kKernels; }

}  // namespace sigma1::cpu
