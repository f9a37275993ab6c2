// Gradients of norms' weights, many in one launch, against the formula in double.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/bundle_kinds.cuh"
#include "tests/gpu/bundle_checks.h"

namespace sigma1 {
namespace {

class CudaNormBundles : public CudaBundles {};

struct NormSpec {
  int64_t rows, n;
  bool centred, has_dc;
  std::string x, dy, out;
};

// A norm whose weights' gradients are asked for.
struct Norm {
  NormSpec spec;
  DeviceTensor x, dy, dw, dc;

  Norm(const NormSpec& s, uint64_t seed)
      : spec(s),
        x({s.rows, s.n}, s.x, Rounding::nearest_even),
        dy({s.rows, s.n}, s.dy, Rounding::nearest_even),
        dw({s.n}, s.out, Rounding::nearest_even),
        dc({s.n}, s.out, Rounding::nearest_even) {
    RandomStream of_x(seed, "x"), of_dy(seed, "dy");
    x.fill([&](size_t i) { return 0.5 + of_x.normal(i); });
    dy.fill([&](size_t i) { return of_dy.normal(i); });
  }

  cuda::NormWeightTask task() const {
    return {.x = cuda::view_of(x.buffer()),
            .dy = cuda::view_of(dy.buffer()),
            .dw = cuda::view_of(dw.buffer()),
            .dc = spec.has_dc ? cuda::view_of(dc.buffer()) : cuda::View{},
            .dw_factor = 0.75f,
            .dc_factor = 0.875f,
            .eps = 1e-5f,
            .rows = spec.rows,
            .n = spec.n,
            .centred = spec.centred};
  }

  // Sums over the rows of dy·x̂, dy and their magnitudes.
  struct Sums {
    Tensor dw, dc, dw_magnitude, dc_magnitude;
  };
  Sums reference() const {
    Tensor xs = x.numbers(), dys = dy.numbers(), zeros({spec.n});
    Sums sums{zeros, zeros, zeros, zeros};
    auto count = static_cast<double>(spec.n);
    for (int64_t row = 0; row < spec.rows; ++row) {
      double mean = 0, square = 0;
      const double* of_row = xs.data.data() + row * spec.n;
      for (int64_t j = 0; j < spec.n && spec.centred; ++j) mean += of_row[j] / count;
      for (int64_t j = 0; j < spec.n; ++j) square += (of_row[j] - mean) * (of_row[j] - mean);
      double inverse = 1 / std::sqrt(square / count + static_cast<double>(1e-5f));
      for (int64_t j = 0; j < spec.n; ++j) {
        double d = dys[row * spec.n + j], dw_term = 0.75 * d * (of_row[j] - mean) * inverse;
        sums.dw[j] += dw_term;
        sums.dc[j] += 0.875 * d;
        sums.dw_magnitude[j] += std::abs(dw_term);
        sums.dc_magnitude[j] += std::abs(0.875 * d);
      }
    }
    return sums;
  }
};

Bytes outputs_of(const std::deque<Norm>& norms) {
  Bytes all;
  for (const Norm& norm : norms) {
    for (const DeviceTensor* output : {&norm.dw, &norm.dc}) {
      EXPECT_TRUE(output->is_intact());
      all.push_back(output->bytes());
      output->poison();
    }
  }
  return all;
}

std::unique_ptr<Chain> bundle_of(const std::deque<Norm>& norms) {
  std::vector<cuda::NormWeightTask> tasks;
  for (const Norm& norm : norms) tasks.push_back(norm.task());
  return cuda::bundle_norm_weight_gradients(cuda_device(), tasks);
}

TEST_F(CudaNormBundles, FindGradientsOfWeights) {
  std::deque<Norm> norms;
  uint64_t seed = 0;
  for (const NormSpec& spec :
       std::vector<NormSpec>{{2048, 128, true, true, "fp16", "fp16", "fp16"},
                             {100, 128, false, false, "fp16", "fp16", "fp32"},
                             {37, 512, true, true, "bf16", "bf16", "bf16"},
                             {1, 8, true, true, "fp32", "fp32", "fp32"},
                             {300, 200, true, false, "fp16", "fp16", "fp32"},
                             {65, 30, false, true, "fp16", "fp16", "fp32"},
                             {50, 131, true, true, "fp32", "bf16", "fp16"},
                             {90, 64, true, true, "fp16", "e5m2", "fp16"}}) {
    norms.emplace_back(spec, ++seed);
  }
  std::unique_ptr<Chain> bundle = bundle_of(norms);
  bundle->run(3);
  for (const Norm& norm : norms) {
    Norm::Sums want = norm.reference();
    std::string what = to_string(norm.x.buffer().shape);
    double rounding = rounding_of(norm.dw.buffer());
    expect_near(norm.dw.numbers(), want.dw, want.dw_magnitude, rounding, "dw " + what);
    if (norm.spec.has_dc) {
      expect_near(norm.dc.numbers(), want.dc, want.dc_magnitude, rounding, "dc " + what);
    } else {
      EXPECT_TRUE(std::isnan(norm.dc.numbers()[0]));
    }
  }
  Bytes first = outputs_of(norms);
  bundle->run(3);
  EXPECT_EQ(outputs_of(norms), first);
}

TEST_F(CudaNormBundles, ShowTheirTime) {
  std::deque<Norm> norms;
  for (uint64_t i = 0; i < 17; ++i) {
    norms.emplace_back(NormSpec{2048, 128, true, true, "fp16", "fp16", "fp16"}, i);
  }
  print_time("weights of 17 norms of 2048 rows", *bundle_of(norms));
}

}  // namespace
}  // namespace sigma1
