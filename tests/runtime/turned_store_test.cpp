// Tensors of the store that a product reads across are there in both orientations, whoever writes
// them.
#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/passes/precision.h"
#include "sigma1/runtime/program.h"
#include "tests/backend/turning_device.h"

namespace sigma1 {
namespace {

std::vector<float> some_numbers(size_t count, float first = -3) {
  std::vector<float> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(first + 0.37f * static_cast<float>(i));
  return numbers;
}

class TurnedStore : public testing::Test {
 protected:
  using Stored = std::map<std::string, std::string>;

  // y = x·w, with w of 8 bits.
  std::unique_ptr<Program> reader() {
    auto graph = std::make_shared<Graph>();
    Value x = graph->input("x", {{4, 3}}, false), w = graph->input("w", {{3, 5}}, false);
    graph->node(w.node).storage = {product_cast("e4m3")};
    Value y = matmul(x, w);
    graph->mark_output("y", y);
    return std::make_unique<Program>(graph, store_, Stored{});
  }
  // w = 2·v
  std::unique_ptr<Program> writer() {
    auto graph = std::make_shared<Graph>();
    Value v = graph->input("v", {{3, 5}}, false), w = scale(v, 2);
    graph->node(w.node).storage = {product_cast("e4m3")};
    graph->mark_output("w", w);
    return std::make_unique<Program>(graph, store_, Stored{{"w", "w"}});
  }

  TurningDevice device_;
  Store store_{device_};
};

TEST_F(TurnedStore, IsWrittenInBothOrientations) {
  auto product = reader();
  ASSERT_NE(store_.at("w").turned, nullptr);
  EXPECT_EQ(store_.at("x").turned, nullptr) << "read as it is stored";
  store_.write("w", some_numbers(15));
  EXPECT_TRUE(is_turned(store_.at("w")));
  EXPECT_EQ(store_.bytes("w"), 15);
  EXPECT_EQ(store_.all_bytes(), 2 * 15 + 4 * 12);
  std::vector<std::byte> codes = store_.read_bytes("w");
  ASSERT_EQ(codes.size(), 15U);
  std::ranges::reverse(codes);
  store_.write_bytes("w", codes);
  EXPECT_TRUE(is_turned(store_.at("w")));
}

TEST_F(TurnedStore, IsWrittenByProgramsInBothOrientations) {
  auto product = reader();
  auto update = writer();
  for (float first : {-3.0f, 1.0f}) {
    store_.write("v", some_numbers(15, first));
    update->run(0);
    EXPECT_TRUE(is_turned(store_.at("w")));
  }
  EXPECT_NE(store_.at("w").turned[1], std::byte{0});
}

TEST_F(TurnedStore, RefusesToBeTurnedBehindAWritersBack) {
  auto update = writer();
  EXPECT_THROW(reader(), Bug);
}

TEST_F(TurnedStore, IsForgottenWhole) {
  auto product = reader();
  product.reset();
  store_.remove("w");
  EXPECT_FALSE(store_.contains("w"));
  auto update = writer();
  EXPECT_EQ(store_.at("w").turned, nullptr);
}

}  // namespace
}  // namespace sigma1
