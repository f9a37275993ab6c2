#include "tests/gpu/line_chain_case.h"

#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"

namespace sigma1 {
namespace {

class LineBuilder {
 public:
  using Id = RowChainCase::Id;

  LineBuilder(const Device& device, const LineChainSizes& sizes)
      : chain_(device, sizes.rows, sizes.format), sizes_(sizes) {
    if (sizes.blank) chain_.leave_blank();
  }

  Id rows() { return chain_.rows(sizes_.width); }
  Id add(const std::vector<Id>& terms) { return chain_.apply(add_op, terms, 0.75f); }
  Id weighted_add(Id x, Id y) {
    return chain_.apply(weighted_add_op, {x, y}, 0.875f,
                        {{"weights", std::vector<double>{0.6, 0.8}}});
  }
  Id norm(Id x, const std::string& format = "") {
    return chain_.apply(layer_norm_op, {x, vector(), vector()}, 0.75f, {}, format);
  }
  Id norm_grad(Id dy) {
    return chain_.apply(layer_norm_grad_op, {rows(), vector(), dy}, 0.75f,
                        {{"eps", 1e-5}, {"has_bias", true}});
  }
  Id rms_norm_grad(Id dy) {
    return chain_.apply(rms_norm_grad_op, {rows(), vector(), dy}, 0.75f,
                        {{"eps", 1e-5}, {"has_bias", false}});
  }

  RowChainCase finish(Id result, const char* format) {
    if (sizes_.casts) chain_.apply(identity_op, {result}, 1, {}, format);
    return std::move(chain_);
  }
  RowChainCase finish() { return std::move(chain_); }

 private:
  Id vector() { return chain_.random({sizes_.width}); }

  RowChainCase chain_;
  LineChainSizes sizes_;
};

RowChainCase forward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  size_t x = b.rows(), branch = b.rows();
  return b.finish(b.norm(b.weighted_add(x, branch)), "e4m3");
}

// The norm's result is stored as the cast says.
RowChainCase merged_forward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  size_t x = b.rows(), branch = b.rows();
  b.norm(b.weighted_add(x, branch), sizes.casts ? "e4m3" : "");
  return b.finish();
}

// Of a model's end and of its first layer.
RowChainCase lone_forward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  return b.finish(b.norm(b.rows()), "e4m3");
}
RowChainCase lone_backward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  return b.finish(b.norm_grad(b.rows()), "e5m2");
}

RowChainCase backward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  size_t dy = b.rows(), residual = b.rows();
  return b.finish(b.weighted_add(residual, b.norm_grad(dy)), "e5m2");
}

// Of a norm that two products read.
RowChainCase split_backward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  size_t gate = b.rows(), up = b.rows(), residual = b.rows();
  return b.finish(b.weighted_add(residual, b.rms_norm_grad(b.add({gate, up}))), "e5m2");
}

RowChainCase short_post_backward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  size_t dy = b.rows(), residual = b.rows();
  return b.finish(b.norm_grad(b.weighted_add(dy, residual)), "e5m2");
}

// Of norms behind the residual sum, whose gradients come from three products and the residual.
RowChainCase post_backward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  size_t q = b.rows(), k = b.rows(), v = b.rows(), residual = b.rows();
  return b.finish(b.norm_grad(b.weighted_add(residual, b.add({q, k, v}))), "e5m2");
}

// Of a last layer's norm and the model's.
RowChainCase last_backward(const Device& device, const LineChainSizes& sizes) {
  LineBuilder b(device, sizes);
  return b.finish(b.rms_norm_grad(b.norm_grad(b.rows())), "e5m2");
}

}  // namespace

std::vector<LineChainKind> line_chain_kinds() {
  return {{"forward", forward},
          {"merged forward", merged_forward},
          {"lone forward", lone_forward},
          {"lone backward", lone_backward},
          {"backward", backward},
          {"split backward", split_backward},
          {"short post", short_post_backward},
          {"post backward", post_backward},
          {"last backward", last_backward}};
}

bool is_turned(const RowChainCase& chain, size_t step) {
  const Buffer& out = chain.output(step);
  return out.codec != nullptr && out.codec->bytes() == 1;
}

}  // namespace sigma1
