// What kernels share: pieces of buffers, whatever their format, beginning anywhere.
#include "sigma1/backend/cpu/kernel.h"

#include <gtest/gtest.h>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/pointwise.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/softmax.h"

namespace sigma1::cpu {
namespace {

constexpr int64_t kCount = 37;

std::vector<float> some_numbers(int64_t count) {
  RandomStream random(9, "numbers");
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<float>(random.normal(static_cast<uint64_t>(i))));
  }
  return numbers;
}

TEST(Kernel, StochasticRoundingDoesNotDependOnThePieces) {
  RandomStream random(7, "rounding");
  std::vector<float> numbers = some_numbers(kCount);
  for (const char* name : {"fp16", "e4m3"}) {
    Codec codec({find_format(name).format, Rounding::stochastic});
    std::vector<std::byte> whole(2 * kCount), pieces(2 * kCount);
    Buffer at_once{whole.data(), &codec, {kCount}}, in_pieces{pieces.data(), &codec, {kCount}};
    store(at_once, 0, kCount, numbers.data(), random);
    for (int64_t length = 1; length <= 9; ++length) {
      std::fill(pieces.begin(), pieces.end(), std::byte{0});
      for (int64_t first = 0; first < kCount; first += length) {
        int64_t count = std::min(length, kCount - first);
        store(in_pieces, first, count, numbers.data() + first, random);
      }
      EXPECT_EQ(whole, pieces) << name << " in pieces of " << length;
    }
  }
}

TEST(Kernel, ShorterOperandsAreRepeated) {
  Codec half({find_format("fp16").format});
  for (const Codec* codec : std::initializer_list<const Codec*>{nullptr, &half}) {
    for (int64_t period : {int64_t{1}, int64_t{3}, int64_t{10}, kCount}) {
      std::vector<float> numbers = some_numbers(period);
      std::vector<std::byte> bytes(numbers.size() * sizeof(float));
      Buffer buffer{bytes.data(), codec, {period}};
      store(buffer, 0, period, numbers.data());
      for (int64_t first = 0; first < kCount; ++first) {
        float room[kCount];
        const float* tile = load_tile(buffer, first, kCount - first, kCount, room);
        for (int64_t i = first; i < kCount; ++i) {
          ASSERT_EQ(tile[i - first], load_one(buffer, i % period));
        }
      }
    }
  }
}

TEST(Kernel, NumbersThatNeedNoWorkAreNotCopied) {
  std::vector<float> numbers = some_numbers(10);
  Buffer buffer{reinterpret_cast<std::byte*>(numbers.data()), nullptr, {10}};
  float room[20];
  EXPECT_EQ(load_tile(buffer, 4, 6, 10, room), numbers.data() + 4);
  EXPECT_EQ(load_tile(buffer, 21, 6, 100, room), numbers.data() + 1);
  EXPECT_EQ(load_tile(buffer, 26, 6, 100, room), room);
}

TEST(Kernel, KnowsWhatTreatsEachElementAlone) {
  ASSERT_NE(find_pointwise(gelu_op), nullptr);
  EXPECT_EQ(find_pointwise(gelu_op)->op, &gelu_op);
  EXPECT_EQ(find_pointwise(softmax_op), nullptr);
}

TEST(Kernel, TargetsOutsideTheVocabularyAreRefused) {
  std::vector<float> logits(10), loss(1), dlogits(10);
  auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
  Attributes attributes{{"reduction", std::string("sum")}};
  std::vector<float> factors(2, 1);
  std::vector<RandomStream> random(2);
  std::vector<double> workspace(2);
  for (int32_t wrong : {-1, 5}) {
    std::vector<int32_t> targets{0, wrong};
    Buffer in[] = {{bytes(logits), nullptr, {2, 5}}, {bytes(targets), nullptr, {2}, Kind::index}};
    Buffer out[] = {{bytes(loss), nullptr, {}}, {bytes(dlogits), nullptr, {2, 5}}};
    Launch launch{in,      out,    attributes,
                  factors, random, std::as_writable_bytes(std::span(workspace))};
    for (const Kernel& kernel : softmax_kernels()) {
      if (kernel.op != &softmax_xent_op && kernel.op != &softmax_xent_with_grad_op) continue;
      EXPECT_THROW(kernel.run(launch), Error) << kernel.op->name;
    }
  }
}

}  // namespace
}  // namespace sigma1::cpu
