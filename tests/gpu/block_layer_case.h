// The linear layers of a Transformer's block with what stands around each: who computes its factors
// of 8 bits, x before it and dy behind it.
#pragma once

#include "sigma1/ops/attention.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "tests/gpu/eight_bit_case.h"

namespace sigma1 {

struct BlockSizes {
  const char* name;
  int64_t batch, time, width, heads;
  bool causal;
};

enum class BlockLayer { attended, projection, up, down };  // attended: queries, keys and values
inline constexpr BlockLayer kBlockLayers[] = {BlockLayer::attended, BlockLayer::projection,
                                              BlockLayer::up, BlockLayer::down};

inline LayerSizes sizes_of(const BlockSizes& block, BlockLayer layer) {
  int64_t rows = block.batch * block.time, width = block.width, wide = 4 * width;
  switch (layer) {
    case BlockLayer::attended:
      return {rows, width, 3 * width};
    case BlockLayer::up:
      return {rows, width, wide};
    case BlockLayer::down:
      return {rows, wide, width};
    case BlockLayer::projection:
      break;
  }
  return {rows, width, width};
}

// With the layer's products x and dy are of 8 bits, without them in fp16, and nothing reads them.
class BlockLayerGraph {
 public:
  BlockLayerGraph(const BlockSizes& block, BlockLayer layer, bool has_products)
      : block_(block), has_products_(has_products), made_{sizes_of(block, layer)} {
    Value x = x_of(layer), dy = dy_of(layer);
    if (!has_products) return;
    auto [rows, in, out] = made_.sizes;
    // The optimiser writes weights in 8 bits.
    Value w = made_.stored(made_.graph->input("w", {{in, out}}), product_cast("e4m3"));
    made_.add_products(as_rows(x, {rows, in}), w, as_rows(dy, {rows, out}), "fp16");
  }
  std::shared_ptr<Graph> graph() const { return made_.graph; }

 private:
  // A name for it: of the same numbers, in the same format.
  Value as_rows(Value factor, const Shape& shape) {
    if (factor.shape() == shape) return factor;
    Cast cast = made_.graph->node(factor.node).storage[static_cast<size_t>(factor.output)];
    return made_.stored(reshape(factor, shape), cast);
  }

  Value x_of(BlockLayer layer) {
    Shape rows{made_.sizes.rows, made_.sizes.in};
    if (layer == BlockLayer::projection) return attended();
    if (layer == BlockLayer::down) return factor("x", gelu(source("before", rows)), "e4m3");
    Value sum = kept("sum", weighted_add({source("before", rows), source("branch", rows)}, {1, 1}));
    Value gain = source("gain", {rows.back()}), shift = source("shift", {rows.back()});
    return factor("x", layer_norm(sum, gain, shift), "e4m3");
  }

  Value dy_of(BlockLayer layer) {
    if (layer == BlockLayer::attended) return attention_gradient();
    Shape rows{made_.sizes.rows, made_.sizes.out};
    Value after = source("after", rows), gradient = source("gradient", rows);
    if (layer == BlockLayer::up) {
      return factor("dy", made_.graph->append_one(gelu_grad_op, {after, gradient}), "e5m2");
    }
    Value gain = source("next gain", {rows.back()});
    Value through =
        made_.stored(made_.graph->append_one(layer_norm_grad_op, {after, gain, gradient},
                                             {{"eps", kNormEpsilon}}),
                     kHalves);
    Value sum = kept("sum of gradients", weighted_add({through, source("past", rows)}, {1, 1}));
    return has_products_ ? made_.cast(sum, "e5m2") : sum;
  }

  Shape samples() const { return {block_.batch, block_.time, block_.width}; }
  Attributes attention_attributes() const {
    return {{"heads", block_.heads},
            {"causal", block_.causal},
            {"multiplier", 1.0},
            {"has_relative", false},
            {"has_mask", false}};
  }
  std::vector<Value> queries_keys_values(const char* why) {
    std::vector<Value> all;
    for (const char* each : {"queries", "keys", "values"}) {
      all.push_back(source(fmt::format("{} {}", each, why), samples()));
    }
    return all;
  }

  // As keep_attention has it: what is stored in 8 bits is kept in 16 once more.
  Value attended() {
    Attributes attributes = attention_attributes();
    attributes.set(kKeepsResult, has_products_);
    std::vector<Value> all =
        made_.graph->append(attention_kept_op, queries_keys_values("before"), attributes);
    Node& node = made_.graph->node(all.front().node);
    node.storage = {has_products_ ? product_cast("e4m3") : kHalves, storage_cast("fp32")};
    if (has_products_) node.storage.push_back(kHalves);
    for (size_t i = has_products_ ? 1 : 0; i < all.size(); ++i) {
      made_.graph->mark_output(fmt::format("attended {}", i), all[i]);
    }
    return all.front();
  }

  Value attention_gradient() {
    Attributes attributes = attention_attributes();
    attributes.set(kResultFactor, 1.0);
    std::vector<Value> inputs = queries_keys_values("after");
    inputs.push_back(source("gradient", samples()));
    inputs.push_back(source("result", samples()));
    inputs.push_back(made_.graph->input("logs", {{block_.batch, block_.heads, block_.time}}));
    std::vector<Value> parts = made_.graph->append(attention_kept_grad_op, inputs, attributes);
    made_.graph->node(parts.front().node).storage = {kHalves, kHalves, kHalves};
    if (has_products_) return made_.cast(made_.stored(concat(parts, 2), kHalves), "e5m2");
    // A step has no copy of them: kernels give parts of rows.
    for (Value part : parts) made_.graph->mark_output(fmt::format("dy {}", part.output), part);
    return parts.front();
  }

  Value source(const std::string& name, const Shape& shape) {
    return made_.source(name.c_str(), shape);
  }
  Value kept(const char* name, Value value) {
    made_.graph->mark_output(name, made_.stored(value, kHalves));
    return value;
  }
  Value factor(const char* name, Value value, const char* format) {
    return has_products_ ? made_.stored(value, product_cast(format)) : kept(name, value);
  }

  inline static const Cast kHalves = storage_cast("fp16");
  BlockSizes block_;
  bool has_products_;
  LayerGraph made_;
};

}  // namespace sigma1
