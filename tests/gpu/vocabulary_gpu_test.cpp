// The two ends of a language model on the GPU, where rows are as many as words: the gradient of its
// embedding and its loss, at sizes that take each way through their kernels. Times are printed.
#include <gtest/gtest.h>

#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/softmax.h"
#include "tests/conformance/kernel_checks.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

class CudaVocabulary : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

void expect_everywhere(const Sample& sample, const std::string& what) {
  SCOPED_TRACE(what);
  for (const Storage& storage : all_storages()) {
    expect_reference(sample, storage);
    expect_same_in_place(sample, storage);
    KernelCall call = sample.call(storage);
    EXPECT_EQ(call.run(), call.run()) << storage.name;
  }
}

ConformanceCase embedding_grad_case(int64_t picks, int64_t rows, int64_t d) {
  return {"", &embedding_grad_op, {{{picks, d}}, {{picks}, Kind::index}}, {{"rows", rows}}, {}, {},
          {}};
}

// As words are: one of them is every third, and some do not occur.
void make_skew(Tensor& ids) {
  for (int64_t i = 0; i < ids.count(); i += 3) ids[i] = 7;
  for (int64_t i = 1; i < ids.count(); i += 9) ids[i] = 2;
}

// As characters are: most of them letters, whose numbers are neighbours.
void make_text(Tensor& ids, int64_t rows) {
  for (int64_t i = 0; i < ids.count(); ++i) {
    if (i % 8 != 0) ids[i] = static_cast<double>(i * i % std::min<int64_t>(26, rows));
  }
}

TEST_F(CudaVocabulary, SumPicksOfRows) {
  struct Sizes {
    int64_t picks, rows, d;
  };
  for (auto [picks, rows, d] : std::vector<Sizes>{
           {2048, 5008, 128}, {4096, 33, 136}, {300, 50, 21}, {1, 8, 8}, {4097, 300, 64}}) {
    ConformanceCase c = embedding_grad_case(picks, rows, d);
    Sample sample(c, cuda_device());
    expect_everywhere(sample, fmt::format("{} picks of {} rows of {}", picks, rows, d));
    make_skew(sample.inputs[1]);
    expect_everywhere(sample, fmt::format("{} skew picks of {} rows of {}", picks, rows, d));
    make_text(sample.inputs[1], rows);
    expect_everywhere(sample, fmt::format("{} letters of {} rows of {}", picks, rows, d));
  }
}

TEST_F(CudaVocabulary, SumPicksOfEachTable) {
  ConformanceCase c{"",
                    &gather_rows_grad_op,
                    {{{3, 100, 24}}, {{3, 100}, Kind::index}},
                    {{"rows", int64_t{45}}},
                    {},
                    {},
                    {}};
  Sample sample(c, cuda_device());
  expect_everywhere(sample, "tables of 45 rows");
  make_skew(sample.inputs[1]);
  expect_everywhere(sample, "tables of 45 rows, skew picks");
}

ConformanceCase loss_case(int64_t rows, int64_t n) {
  return {"",
          &softmax_xent_with_grad_op,
          {{{rows, n}}, {{rows}, Kind::index}},
          {{"reduction", std::string("mean")}},
          {},
          {},
          {}};
}

TEST_F(CudaVocabulary, FindLossAndGradient) {
  struct Sizes {
    int64_t rows, n;
  };
  for (auto [rows, n] : std::vector<Sizes>{{64, 5008}, {5, 8}, {9, 1000}, {3, 32768}, {2, 32776}}) {
    ConformanceCase c = loss_case(rows, n);
    expect_everywhere(Sample(c, cuda_device()), fmt::format("{} rows of {}", rows, n));
  }
}

// Of 2048 words out of 5008 with rows of 128.
TEST_F(CudaVocabulary, ShowTheirTimes) {
  const Storage fp16{"fp16", {"fp16"}, {"fp16"}};
  auto show = [&](const char* what, const Sample& sample) {
    double time = microseconds_of(sample.call(fp16), sample.c.attributes);
    std::printf("%s: %.2f us\n", what, time);
  };
  ConformanceCase embedding = embedding_grad_case(2048, 5008, 128), loss = loss_case(2048, 5008);
  Sample of_embedding(embedding, cuda_device());
  show("embedding_grad", of_embedding);
  make_skew(of_embedding.inputs[1]);
  show("embedding_grad, skew", of_embedding);
  make_text(of_embedding.inputs[1], 5008);
  show("embedding_grad, letters", of_embedding);
  show("softmax_xent_with_grad", Sample(loss, cuda_device()));
}

}  // namespace
}  // namespace sigma1
