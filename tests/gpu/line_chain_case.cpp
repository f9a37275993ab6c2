#include "tests/gpu/line_chain_case.h"

#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
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
    return grad_of(layer_norm_grad_op, layer_norm_weight_grad_op, dy,
                   {{"eps", 1e-5}, {"has_bias", true}});
  }
  Id rms_norm_grad(Id dy) {
    return grad_of(rms_norm_grad_op, rms_norm_weight_grad_op, dy,
                   {{"eps", 1e-5}, {"has_bias", false}});
  }

  RowChainCase finish(Id result, const char* format) {
    if (sizes_.casts) chain_.apply(identity_op, {result}, 1, {}, format);
    if (sizes_.weight_sums) {
      chain_.apply(*norm_.weight_grad, {norm_.x, norm_.dy}, 0.0625f, norm_.attributes);
    }
    if (sizes_.column_sum) {
      chain_.apply(sum_op, {result}, 0.0625f, {{"axes", std::vector<int64_t>{0}}}, "fp32");
    }
    return std::move(chain_);
  }
  RowChainCase finish() { return std::move(chain_); }

 private:
  struct NormGrad {
    const OpDef* weight_grad = nullptr;
    Id x = 0, dy = 0;
    Attributes attributes;
  };

  Id vector() { return chain_.random({sizes_.width}); }
  Id grad_of(const OpDef& op, const OpDef& weight_grad, Id dy, const Attributes& attributes) {
    norm_ = {&weight_grad, rows(), dy, attributes};
    return chain_.apply(op, {norm_.x, vector(), dy}, 0.75f, attributes);
  }

  RowChainCase chain_;
  LineChainSizes sizes_;
  NormGrad norm_;  // the last
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

std::vector<LineChainKind> summed_line_chain_kinds() {
  return {{"lone backward", lone_backward},
          {"backward", backward},
          {"split backward", split_backward},
          {"short post", short_post_backward},
          {"post backward", post_backward}};
}

bool is_turned(const RowChainCase& chain, size_t step) {
  const Buffer& out = chain.output(step);
  return out.codec != nullptr && out.codec->bytes() == 1;
}

namespace {

// [rows, width] as [width, rows].
std::vector<std::byte> turned(const Buffer& buffer, const std::vector<std::byte>& codes) {
  auto width = static_cast<size_t>(buffer.shape.back()), rows = codes.size() / width;
  std::vector<std::byte> result(codes.size());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < width; ++column) {
      result[column * rows + row] = codes[row * width + column];
    }
  }
  return result;
}

}  // namespace

LineBits run_lines(const RowChainCase& chain, const std::vector<bool>& stored) {
  std::vector<bool> both(stored.size());
  for (size_t s = 0; s < stored.size(); ++s) both[s] = stored[s] && is_turned(chain, s);
  auto prepared = chain.prepare(stored, both);
  cuda::LineChain lines(prepared->steps);
  EXPECT_TRUE(lines.turns());
  Memory workspace(cuda_device(), lines.workspace());
  lines.set_workspace(workspace.data());
  lines.run(0);
  EXPECT_TRUE(workspace.is_intact());
  LineBits bits = chain.contents_of(prepared->memory), other = chain.contents_of(prepared->turned);
  for (size_t s = 0; s < stored.size(); ++s) {
    if (!both[s]) continue;
    EXPECT_TRUE(other[s] == turned(chain.output(s), bits[s])) << chain.step_name(s) << ", turned";
  }
  return bits;
}

void expect_steps(const RowChainCase& chain, const LineBits& bits, const Device& device) {
  for (size_t s = 0; s < chain.step_count(); ++s) {
    SCOPED_TRACE(fmt::format("{} on {}", chain.step_name(s), device.name()));
    const Buffer& out = chain.output(s);
    auto alone = chain.run_alone(s, bits, device);
    if (alone == bits[s]) continue;
    expect_close(decoded(out, bits[s]), decoded(out, alone),
                 out.codec ? out.codec->cast().format : find_format("fp32").format);
  }
}

void expect_single_kernels(const RowChainCase& chain, bool on_cpu) {
  std::vector<bool> all(chain.step_count(), true), ends(chain.step_count());
  LineBits bits = run_lines(chain, all);
  expect_steps(chain, bits, cuda_device());
  if (on_cpu) expect_steps(chain, bits, cpu_device());
  EXPECT_TRUE(bits == run_lines(chain, all)) << "again";
  for (size_t s = 0; s < ends.size(); ++s) ends[s] = !chain.is_used(s);
  LineBits fewer = run_lines(chain, ends);
  for (size_t s = 0; s < ends.size(); ++s) {
    EXPECT_TRUE(!ends[s] || bits[s] == fewer[s]) << chain.step_name(s) << " of fewer";
  }
}

bool fits_lines(const RowChainCase& chain) {
  return cuda::fits_lines(chain.prepare(std::vector<bool>(chain.step_count(), false))->steps);
}

}  // namespace sigma1
