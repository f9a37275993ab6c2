#include "sigma1/train/product_dispatch.h"

#include <gtest/gtest.h>

#include "sigma1/train/step_graphs.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

TrainConfig fp8_config() {
  TrainConfig config = tiny_config({{"model", "gpt"}, {"precision", "fp8"}, {"method", "unit"}});
  config.size.vocabulary = 64;
  return config;
}

// Tensors that a product of this path, forward or backward, reads in 8 bits.
int count_8_bits(const Graph& graph, const std::string& path) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    if (node.name.find(path) == std::string::npos) continue;
    for (Value input : node.inputs) {
      const Node& read = graph.node(input.node);
      bool is_8 = !read.storage.empty() &&
                  read.storage[static_cast<size_t>(input.output)].format.bits() == 8;
      count += is_8 && node.op->multiplies != nullptr;
    }
  }
  return count;
}

TEST(ProductDispatch, ACpuKnowsNothingAgainst8Bits) {
  EXPECT_TRUE(products_left_in_16_bits(fp8_config(), cpu_device()).empty());
}

TEST(ProductDispatch, AProductAndItsGradientsReadWhatIsStored) {
  TrainConfig config = fp8_config();
  constexpr const char* kProduct = "layer0/attention/qkv/linear";
  StepGraph before = gradient_graph(config, {}, cpu_device());
  EXPECT_GE(count_8_bits(*before.graph, kProduct), 6);  // two factors of each product
  leave_in_16_bits(config, {{kProduct, "of a reason"}});
  StepGraph after = gradient_graph(config, {}, cpu_device());
  EXPECT_EQ(count_8_bits(*after.graph, kProduct), 0);
  EXPECT_EQ(count_8_bits(*after.graph, "layer0/attention/out/linear"),
            count_8_bits(*before.graph, "layer0/attention/out/linear"));
}

TEST(ProductDispatch, OverridesNameProducts) {
  TrainConfig config = fp8_config();
  for (const char* good : {"", "head=fp16", "layer0=stored", "layer*/attention/*=fp16,head=fp8"}) {
    config.matmul_overrides = good;
    EXPECT_NO_THROW(expect_known_products(config)) << good;
  }
  for (const char* bad : {"heda=fp16", "layer0/norm1=fp16", "head=fp16,layer9/*=fp16"}) {
    config.matmul_overrides = bad;
    EXPECT_THROW(expect_known_products(config), Error) << bad;
  }
  config.matmul_overrides = "head=fp16,heda=fp16";
  try {
    expect_known_products(config);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got 'heda'; of "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("layer0/attention/qkv/linear"), std::string::npos);
  }
}

TEST(ProductDispatch, IsToldByReasons) {
  EXPECT_EQ(to_string(std::vector<Dispatched>{}), "");
  EXPECT_EQ(to_string(std::vector<Dispatched>{{"a", "x"}, {"b", "y"}, {"c", "x"}}),
            "2 products read 16 bits instead of 8, from a: x; "
            "1 products read 16 bits instead of 8, from b: y");
}

}  // namespace
}  // namespace sigma1
