// Gradients of kept attention that leave as codes of E5M2 in both orientations, with sums of their
// columns: against the same gradients as tensors of their own. And how long they take.
#include <algorithm>
#include <cstdio>
#include <set>

#include "sigma1/backend/cuda/attention_code_places.cuh"
#include "tests/gpu/attention_codes_case.h"
#include "tests/gpu/chain_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

using cuda::CodePlaces;
using Place = CodePlaces::Place;
constexpr int kLanes = 32, kColumns = 64;

uint8_t code_at(int row, int column) { return static_cast<uint8_t>(row * 31 + column * 7 + 1); }

// What follows until the next class needs no GPU.
std::vector<uint8_t> packed_room() {
  std::vector<uint8_t> room(CodePlaces::kRows * CodePlaces::kRowBytes);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int n = 0; n < CodePlaces::kPairs; ++n) {
      Place first = CodePlaces::pair(lane, n);
      auto at = static_cast<size_t>(CodePlaces::at(first));
      EXPECT_EQ(at % 2, 0u);
      room.at(at) = code_at(first.row, first.column);
      room.at(at + 1) = code_at(first.row, first.column + 1);
    }
  }
  return room;
}

TEST(AttentionCodePlaces, HoldEveryCodeOnce) {
  std::set<int> places;
  for (int row = 0; row < CodePlaces::kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      int at = CodePlaces::at({row, column});
      EXPECT_TRUE(0 <= at && at < CodePlaces::kRows * CodePlaces::kRowBytes);
      places.insert(at);
    }
  }
  EXPECT_EQ(places.size(), static_cast<size_t>(CodePlaces::kRows) * kColumns);
}

TEST(AttentionCodePlaces, AreTakenAsRows) {
  std::vector<uint8_t> room = packed_room();
  std::set<std::pair<int, int>> taken;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int n = 0; n < CodePlaces::kPieceTurns; ++n) {
      Place first = CodePlaces::piece(lane, n);
      auto at = static_cast<size_t>(CodePlaces::at(first));
      EXPECT_EQ(at % CodePlaces::kPiece, 0u);
      // The kernel steps from turn to turn by as many rows for all lanes.
      EXPECT_EQ(first.row - CodePlaces::piece(lane, 0).row, CodePlaces::piece(0, n).row);
      EXPECT_EQ(first.column, CodePlaces::piece(lane, 0).column);
      for (int k = 0; k < CodePlaces::kPiece; ++k) {
        EXPECT_EQ(room.at(at + static_cast<size_t>(k)), code_at(first.row, first.column + k));
        taken.insert({first.row, first.column + k});
      }
    }
  }
  EXPECT_EQ(taken.size(), static_cast<size_t>(CodePlaces::kRows) * kColumns);
}

TEST(AttentionCodePlaces, AreTakenAsColumns) {
  std::vector<uint8_t> room = packed_room();
  std::set<std::pair<int, int>> taken;
  for (int lane = 0; lane < kLanes; ++lane) {
    Place first = CodePlaces::block(lane);
    for (int row = first.row; row < first.row + CodePlaces::kHalf; ++row) {
      auto at = static_cast<size_t>(CodePlaces::at({row, first.column}));
      EXPECT_EQ(at % CodePlaces::kWord, 0u);
      for (int k = 0; k < CodePlaces::kWord; ++k) {
        EXPECT_EQ(room.at(at + static_cast<size_t>(k)), code_at(row, first.column + k));
        taken.insert({row, first.column + k});
      }
    }
  }
  EXPECT_EQ(taken.size(), static_cast<size_t>(CodePlaces::kRows) * kColumns);
}

// Words that lanes touch at once lie in different banks, or are the same; 16 bytes go by eight
// lanes.
TEST(AttentionCodePlaces, AreInDifferentBanks) {
  auto expect = [](int first_lane, int lanes, int words, auto place) {
    std::set<int> touched, banks;
    for (int lane = first_lane; lane < first_lane + lanes; ++lane) {
      for (int word = 0; word < words; ++word) {
        touched.insert(CodePlaces::at(place(lane)) / 4 + word);
        banks.insert((CodePlaces::at(place(lane)) / 4 + word) % 32);
      }
    }
    EXPECT_EQ(touched.size(), banks.size());
  };
  for (int n = 0; n < CodePlaces::kPairs; ++n) {
    expect(0, kLanes, 1, [=](int lane) { return CodePlaces::pair(lane, n); });
  }
  for (int n = 0; n < CodePlaces::kPieceTurns; ++n) {
    for (int lane = 0; lane < kLanes; lane += 8) {
      expect(lane, 8, 4, [=](int each) { return CodePlaces::piece(each, n); });
    }
  }
  for (int row = 0; row < CodePlaces::kHalf; ++row) {
    expect(0, kLanes, 1, [=](int lane) {
      Place first = CodePlaces::block(lane);
      return Place{first.row + row, first.column};
    });
  }
}

class CudaAttentionCodes : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Of one span and of many, of whole ones and of a rest; more heads than there are blocks, and
// fewer, so that some are cut in two and in three; with masks that hide a whole sample.
const AttentionCase kCases[] = {{13, 8, 1024, 1024, 64, true},
                                {10, 16, 208, 208, 64, true, false, true},
                                {26, 4, 128, 128, 64, false, false, true},
                                {26, 4, 128, 128, 48, true, false, true},
                                {30, 9, 144, 144, 64, true},
                                {9, 12, 400, 400, 64},
                                {2, 60, 1008, 1008, 32, true},
                                {4, 26, 640, 640, 16, true, false, true},
                                {1, 100, 272, 272, 64, true},
                                {16, 25, 256, 256, 64, true}};

// By rows, columns and gradient.
std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& parts, int64_t rows) {
  std::vector<std::byte> whole;
  size_t of_row = parts.front().size() / static_cast<size_t>(rows);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    for (const std::vector<std::byte>& part : parts) {
      auto from = part.begin() + static_cast<int64_t>(row * of_row);
      whole.insert(whole.end(), from, from + static_cast<int64_t>(of_row));
    }
  }
  return whole;
}

std::vector<std::byte> turned(const std::vector<std::byte>& codes, int64_t width) {
  std::vector<std::byte> result(codes.size());
  size_t columns = static_cast<size_t>(width), rows = codes.size() / columns;
  for (size_t i = 0; i < codes.size(); ++i) result[i % columns * rows + i / columns] = codes[i];
  return result;
}

// Sums of columns in double, and of their numbers without signs.
struct ColumnSums {
  std::vector<double> sums, sizes;

  ColumnSums(const KeptGrad& wide, int64_t rows) {
    Bytes of_wide = wide.call.run();
    for (size_t o = 0; o < of_wide.size(); ++o) {
      Tensor part = decoded(wide.call.output(o), of_wide[o]);
      auto width = static_cast<size_t>(part.count() / rows), first = sums.size();
      sums.resize(first + width);
      sizes.resize(first + width);
      for (size_t i = 0; i < part.data.size(); ++i) {
        sums[first + i % width] += part.data[i];
        sizes[first + i % width] += std::abs(part.data[i]);
      }
    }
  }
};

void expect_codes(const AttentionCase& each, const std::vector<Tensor>& inputs,
                  const std::string& format) {
  SCOPED_TRACE(each.label() + " in " + format);
  KeptGrad narrow = grad_of(each, format, "fp16", "e5m2", inputs);
  KeptGrad wide = grad_of(each, format, "fp16", "fp32", inputs);
  PlacedCodes both(narrow, {}), alone(narrow, {.turned = false, .sums = false});
  both.run();
  alone.run();
  std::vector<std::byte> want = joined(narrow.call.run(), both.rows());
  EXPECT_TRUE(both.codes() == want);
  EXPECT_TRUE(both.turned() == turned(want, both.width()));
  EXPECT_TRUE(alone.codes() == want);
  EXPECT_TRUE(both.is_intact() && alone.is_intact()) << "written behind an end";
  ColumnSums columns(wide, both.rows());
  std::vector<float> sums = both.sums();
  constexpr double kFactor = PlacedCodes::kOfSum / PlacedCodes::kOfCast;
  for (size_t c = 0; c < sums.size(); ++c) {
    double error = std::abs(static_cast<double>(sums[c]) - kFactor * columns.sums[c]);
    ASSERT_LE(error, 4e-6 * columns.sizes[c]) << "column " << c;
  }
  both.run();
  EXPECT_TRUE(both.codes() == want && both.sums() == sums) << "not the same bits again";
}

TEST_F(CudaAttentionCodes, AreThoseOfGradientsApart) {
  for (const AttentionCase& each : kCases) {
    expect_codes(each, each.inputs(attention_grad_op, 1), "fp16");
  }
}

// What is too large for E5M2 becomes the largest number, what is too small zero.
TEST_F(CudaAttentionCodes, TakeGradientsOfAnyScale) {
  const AttentionCase each{10, 12, 208, 208, 64, true};
  for (double scale : {1e-6, 1e4}) {
    expect_codes(each, each.inputs(attention_grad_op, scale), "fp16");
  }
}

TEST_F(CudaAttentionCodes, TakeInputsOf8Bits) {
  const AttentionCase each{10, 12, 208, 208, 64, true};
  expect_codes(each, each.inputs(attention_grad_op, 1), "e4m3");
}

// Tiles of keys of which none is seen, at the beginning, in the middle and at the end.
TEST_F(CudaAttentionCodes, AreZerosWhereNothingIsSeen) {
  for (bool causal : {false, true}) {
    const AttentionCase each{9, 12, 912, 912, 64, causal, false, true};
    std::vector<Tensor> inputs = each.inputs(attention_grad_op, 1);
    Tensor& mask = inputs[3];
    for (int64_t i = 0; i < mask.count(); ++i) {
      int64_t sample = i / each.tk, key = i % each.tk;
      bool hidden = sample % 3 == 1 ? key < 300 : sample % 3 == 2 ? key > 500 : false;
      mask[i] = hidden || (key >= 384 && key < 640) ? 0 : 1;
    }
    expect_codes(each, inputs, "fp16");
  }
}

// Prints only: a machine may be busy. Beside gradients in fp16 and the chain that casts them.
TEST_F(CudaAttentionCodes, TakeMicroseconds) {
  for (const AttentionCase& each :
       {AttentionCase{32, 12, 1024, 1024, 64, true}, {32, 16, 512, 512, 64, false, false, true}}) {
    std::vector<Tensor> inputs;
    for (const TensorType& type : each.types(attention_grad_op)) inputs.push_back(repeated(type));
    if (each.mask) std::ranges::fill(inputs[3].data, 1.0);
    Kept kept{inputs.back(), Tensor({each.batch, each.heads, each.tq}), 1};
    for (double& log : kept.logs.data) log = std::log(static_cast<double>(each.tk)) + 0.5;
    KeptGrad grad(each, "fp16", "fp16", "fp16", inputs, kept);
    PlacedCodes both(grad, {}), codes(grad, {.turned = true, .sums = false});
    const ChainSpec cast{"cast", {{&identity_op, {tensor(0)}}}, {"fp16"},
                         "e5m2", Rounding::nearest_even,        tensor(0)};
    std::vector<float> numbers = wide_numbers(both.rows() * both.width(), 1);
    PlacedChain apart(cast, {{both.rows(), both.width()}}, {numbers}, cuda_device(), true);
    constexpr int kLaunches = 20;
    std::printf(
        "%s: gradients %.1f us, cast of them %.1f us; as one, without sums %.1f us, with %.1f us\n",
        each.label().c_str(), microseconds_of(grad.call, grad.attributes),
        microseconds_of(kLaunches, [&] { apart.run(); }),
        microseconds_of(kLaunches, [&] { codes.run(); }),
        microseconds_of(kLaunches, [&] { both.run(); }));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace sigma1
