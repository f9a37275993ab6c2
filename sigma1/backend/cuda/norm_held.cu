// Norms and their gradients with one pass over memory: what a row is computed from is in registers
// before the first of it is written, so that a result may lie where an input does.
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/norm_held.cuh"

namespace sigma1::cuda {
namespace {

template <Type kType, int kWarps, int kPacks>
__global__ void __launch_bounds__(RowTeam<kWarps>::kBlockThreads)
    normalise_held(const __grid_constant__ NormArguments a, bool centred) {
  using Team = RowTeam<kWarps>;
  const int64_t row = int64_t{blockIdx.x} * Team::kRows + Team::row();
  if (row >= a.rows) return;
  RowCodes<Team, kType, kPacks> x;
  x.read(a.x, a.n, row);
  NormRow norm = x.moments(a.n, centred, a.eps);
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int column = Team::column(i);
    if (column >= a.n) break;
    Eight y = x.of[i].numbers();
#pragma unroll
    for (float& each : y.at) each = norm.xhat(each);
    if (a.w.data) {
      Eight w = load_eight(a.w, column);
#pragma unroll
      for (int k = 0; k < 8; ++k) y.at[k] *= w.at[k];
    }
    if (a.c.data) {
      Eight c = load_eight(a.c, column);
#pragma unroll
      for (int k = 0; k < 8; ++k) y.at[k] += c.at[k];
    }
#pragma unroll
    for (float& each : y.at) each *= a.factor;
    store_eight(a.y, row * a.n + column, y);
  }
}

template <Type kType, int kWarps, int kPacks>
__global__ void __launch_bounds__(RowTeam<kWarps>::kBlockThreads)
    norm_grad_held(const __grid_constant__ NormArguments a, bool centred) {
  using Team = RowTeam<kWarps>;
  const int64_t row = int64_t{blockIdx.x} * Team::kRows + Team::row();
  if (row >= a.rows) return;
  RowCodes<Team, kType, kPacks> x, dy;
  x.read(a.x, a.n, row);
  dy.read(a.dy, a.n, row);
  NormRow norm = x.moments(a.n, centred, a.eps);
  Eight dxhat[kPacks];
  float means[2] = {0, 0};  // of dx̂ and of dx̂·x̂
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int column = Team::column(i);
    dxhat[i] = dy.of[i].numbers();
    if (a.w.data && column < a.n) {
      Eight w = load_eight(a.w, column);
#pragma unroll
      for (int k = 0; k < 8; ++k) dxhat[i].at[k] *= w.at[k];
    }
    Eight numbers = x.of[i].numbers();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      means[0] += dxhat[i].at[k];
      means[1] += dxhat[i].at[k] * norm.xhat(numbers.at[k]);
    }
  }
  Team::sum(means);
  auto count = static_cast<float>(a.n);
  const float mean = centred ? means[0] / count : 0, along = means[1] / count;
  const float outer = a.factor * norm.inverse_scale;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int column = Team::column(i);
    if (column >= a.n) break;
    Eight numbers = x.of[i].numbers(), dx;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      dx.at[k] = outer * (dxhat[i].at[k] - mean - norm.xhat(numbers.at[k]) * along);
    }
    store_eight(a.y, row * a.n + column, dx);
  }
}

struct Forward {
  static constexpr const char* kName = "norm";
  template <Type kType, int kWarps, int kPacks>
  static auto kernel() {
    return normalise_held<kType, kWarps, kPacks>;
  }
};

struct Gradient {
  static constexpr const char* kName = "norm_grad";
  template <Type kType, int kWarps, int kPacks>
  static auto kernel() {
    return norm_grad_held<kType, kWarps, kPacks>;
  }
};

template <class Pass>
bool launch_held(const NormArguments& a, bool centred) {
  // Narrower rows leave too few lanes something to do.
  constexpr int64_t kNarrowest = 257;
  auto fits = [&](const View& view) { return view.data == nullptr || packs_eight(view, a.n); };
  if (a.n < kNarrowest || !fits(a.w) || !fits(a.c) || !fits(a.y)) return false;
  return with_held_type(a.x, a.n, [&]<Type kType>() {
    with_held_size(a.n, [&]<int kWarps, int kPacks>() {
      if constexpr (kWarps > 1 || kPacks > 1) {
        using Team = RowTeam<kWarps>;
        auto blocks = static_cast<unsigned>((a.rows + Team::kRows - 1) / Team::kRows);
        launch_kernel(Pass::kName, Pass::template kernel<kType, kWarps, kPacks>(),
                      {blocks, Team::kBlockThreads}, a, centred);
      }
    });
  });
}

}  // namespace

bool normalise_held_rows(const NormArguments& arguments, bool centred) {
  return launch_held<Forward>(arguments, centred);
}

bool find_held_gradients(const NormArguments& arguments, bool centred) {
  const View& dy = arguments.dy;
  bool fits = dy.type == arguments.x.type && dy.scale == nullptr && packs_eight(dy, arguments.n);
  return fits && launch_held<Gradient>(arguments, centred);
}

}  // namespace sigma1::cuda
