#include <cmath>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/pieces.h"
#include "sigma1/ops/positions.h"

namespace sigma1::cpu {
namespace {

// Cosines, then sines, of every position's angles: each serves all heads and sequences.
struct Turns {
  int64_t time, half;  // half: pairs of a head
  float* cosines;
  float* sines;

  explicit Turns(const Launch& launch)
      : time(launch.in(0).shape[1]),
        half(row_length(launch.in(0)) / launch.attr<int64_t>("heads") / 2),
        cosines(reinterpret_cast<float*>(launch.workspace.data())),
        sines(cosines + time * half) {}
};

int64_t turns_workspace(const Launch& launch) {
  Turns turns(launch);
  return 2 * turns.time * turns.half * static_cast<int64_t>(sizeof(float));
}

// In double: an angle grows with the position, and fp32 would lose the digits behind the point.
void fill(const Turns& turns, double base, double sign) {
  for_rows(turns.time, turns.half, [&](int64_t begin, int64_t end) {
    for (int64_t j = 0; j < turns.half; ++j) {
      double along = static_cast<double>(j) / static_cast<double>(turns.half);
      double frequency = std::pow(base, -along);
      for (int64_t t = begin; t < end; ++t) {
        double angle = static_cast<double>(t) * frequency;
        turns.cosines[t * turns.half + j] = static_cast<float>(std::cos(angle));
        turns.sines[t * turns.half + j] = static_cast<float>(sign * std::sin(angle));
      }
    }
  });
}

// One head's numbers; y may be x.
void rotate(const float* x, float* y, const float* cosines, const float* sines, int64_t half,
            float factor) {
  for (int64_t j = 0; j < half; ++j) {
    float a = x[j], b = x[j + half];
    y[j] = factor * (a * cosines[j] - b * sines[j]);
    y[j + half] = factor * (b * cosines[j] + a * sines[j]);
  }
}

void run_rotary(const Launch& launch) {
  Turns turns(launch);
  fill(turns, launch.attr<double>("base"), launch.attr<bool>("inverse") ? -1 : 1);
  int64_t width = row_length(launch.in(0)), rows = launch.in(0).count() / width;
  for_rows(rows, width, [&](int64_t begin, int64_t end) {
    float* room = thread_room(static_cast<size_t>(2 * width));
    for (int64_t row = begin; row < end; ++row) {
      const float* x = load(launch.in(0), row * width, width, room);
      float* y = target(launch.out(), row * width, room + width);
      int64_t at = row % turns.time * turns.half;
      for (int64_t head = 0; head < width; head += 2 * turns.half) {
        rotate(x + head, y + head, turns.cosines + at, turns.sines + at, turns.half,
               launch.factor());
      }
      store(launch.out(), row * width, width, y, launch.random[0]);
    }
  });
}

bool anywhere(size_t, size_t) { return true; }

constexpr Kernel kKernels[] = {{&rotary_op, run_rotary, turns_workspace, anywhere}};

}  // namespace

std::span<const Kernel> rotary_kernels() { return kKernels; }

}  // namespace sigma1::cpu
