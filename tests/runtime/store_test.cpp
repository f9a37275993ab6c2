#include "sigma1/runtime/store.h"

#include <gtest/gtest.h>

#include "sigma1/base/error.h"
#include "sigma1/passes/precision.h"

namespace sigma1 {
namespace {

TEST(Store, StartsAtZeroAndKeepsWhatIsWritten) {
  Store store;
  store.create("w", {{2, 3}}, storage_cast("fp32"));
  EXPECT_TRUE(store.contains("w"));
  EXPECT_FALSE(store.contains("v"));
  EXPECT_EQ(store.read("w"), std::vector<float>(6, 0));
  std::vector<float> values{1, -2, 3.5f, 1e-30f, 5, 6};
  store.write("w", values);
  EXPECT_EQ(store.read("w"), values);
  store.fill("w", -1);
  EXPECT_EQ(store.read("w"), std::vector<float>(6, -1));
  EXPECT_EQ(store.at("w").shape, (Shape{2, 3}));
  EXPECT_TRUE(store.at("w").is_fp32());
}

TEST(Store, RoundsToTheFormat) {
  for (const char* format : {"fp16", "bf16", "e4m3", "e5m2"}) {
    Store store;
    Cast cast = storage_cast(format);
    store.create("w", {{4}}, cast);
    EXPECT_EQ(store.bytes("w"), 4 * cast.format.bytes());
    store.write("w", std::vector<float>{1.06f, -3.1f, 1e9f, 1e-3f});
    std::vector<float> want;
    for (double x : {1.06f, -3.1f, 1e9f, 1e-3f}) {
      want.push_back(static_cast<float>(quantize(x, cast)));
    }
    EXPECT_EQ(store.read("w"), want) << format;
  }
}

TEST(Store, KeepsIndices) {
  Store store;
  store.create("tokens", {{3}, Kind::index}, storage_cast("fp32"));
  store.write_indices("tokens", std::vector<int32_t>{5, 0, 70'000});
  EXPECT_EQ(store.at("tokens").indices()[2], 70'000);
  EXPECT_EQ(store.read("tokens"), (std::vector<float>{5, 0, 70'000}));
  EXPECT_EQ(store.bytes("tokens"), 12);
  EXPECT_THROW(store.write("tokens", std::vector<float>(3)), Bug);
  EXPECT_THROW(store.fill("tokens", 0), Bug);
}

TEST(Store, CreatingAgainKeepsTheNumbersAndTheirPlace) {
  Store store;
  store.create("w", {{3}}, storage_cast("fp16"));
  store.fill("w", 2);
  const std::byte* data = store.at("w").data;
  Cast stochastic = storage_cast("fp16");
  stochastic.rounding = Rounding::stochastic;  // how it is written is the writer's business
  store.create("w", {{3}}, stochastic);
  EXPECT_EQ(store.read("w"), std::vector<float>(3, 2));
  for (int i = 0; i < 100; ++i) store.create("v" + std::to_string(i), {{9}}, stochastic);
  EXPECT_EQ(store.at("w").data, data);
  EXPECT_THROW(store.create("w", {{4}}, stochastic), Error);
  EXPECT_THROW(store.create("w", {{3, 1}}, stochastic), Error);
  EXPECT_THROW(store.create("w", {{3}}, storage_cast("bf16")), Error);
  EXPECT_THROW(store.create("w", {{3}}, storage_cast("fp32")), Error);
  EXPECT_THROW(store.create("w", {{3}, Kind::index}, storage_cast("fp16")), Error);
}

TEST(Store, RefusesWhatIsNotThere) {
  Store store;
  store.create("w", {{3}}, storage_cast("fp32"));
  EXPECT_THROW(store.at("v"), Bug);
  EXPECT_THROW(store.read("v"), Bug);
  EXPECT_THROW(store.bytes("v"), Bug);
  EXPECT_THROW(store.write("w", std::vector<float>(4)), Bug);
  EXPECT_THROW(store.write_indices("w", std::vector<int32_t>(3)), Bug);
}

TEST(Store, CopiesAnothersNumbers) {
  const std::vector<float> numbers{0, -0.0f, 1.25f, -0x1p-14f, 448, 0.5f};
  for (const char* format : {"fp32", "fp16", "bf16", "e5m2"}) {
    Store from, to;
    from.create("w", {{2, 3}}, storage_cast(format));
    from.write("w", numbers);
    for (const char* other : {"fp32", "fp16"}) {
      to.create(other, {{2, 3}}, storage_cast(other));
      from.create(other, {{2, 3}}, storage_cast(format));
      from.write_bytes(other, from.read_bytes("w"));
      to.copy(other, from);
      EXPECT_EQ(to.read(other), from.read("w")) << format << " to " << other;
    }
    EXPECT_THROW(to.copy("fp64", from), Bug);
    to.create("w", {{3}}, storage_cast("fp32"));
    EXPECT_THROW(to.copy("w", from), Bug);
  }
}

TEST(Store, NamesAreSorted) {
  Store store;
  for (const char* name : {"b", "c", "a"}) store.create(name, {{}}, storage_cast("fp32"));
  EXPECT_EQ(store.names(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(DeviceBytes, AreAlignedAndZero) {
  for (int64_t size : {0, 1, 63, 64, 1000}) {
    DeviceBytes bytes(cpu_device(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
    EXPECT_EQ(bytes.size(), size);
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(bytes.data()[i], std::byte{0});
  }
// Sanitizers end the program where memory is refused.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_THROW(DeviceBytes(cpu_device(), int64_t{1} << 60), Error);
#endif
}

}  // namespace
}  // namespace sigma1
