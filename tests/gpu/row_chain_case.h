// Chains of row-local ops with random tensors, to be run as one kernel and step by step.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "sigma1/backend/cuda/row_chain.cuh"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {

class RowChainCase {
 public:
  using Id = size_t;                                     // of a tensor
  using Contents = std::vector<std::vector<std::byte>>;  // of each step's output, empty: not stored

  // Tensors are stored in `format` where nothing else is asked for. Rows may be of samples.
  RowChainCase(const Device& device, Shape rows, std::string format)
      : device_(device), rows_(std::move(rows)), format_(std::move(format)) {}
  RowChainCase(const Device& device, int64_t rows, std::string format)
      : RowChainCase(device, Shape{rows}, std::move(format)) {}

  // Tensors from now on are memory without numbers, where only time matters.
  void leave_blank() { is_blank_ = true; }
  Id rows(int64_t width, const std::string& format = "");
  Id random(const Shape& shape, const std::string& format = "");
  Id random_like(const Buffer& tensor);
  // Settings that are not given are the op's defaults. Several outputs, which are alike, are one
  // tensor here, one behind the other; each has a factor of its own.
  Id apply(const OpDef& op, const std::vector<Id>& inputs, float factor = 1,
           const Attributes& attributes = {}, const std::string& format = "");
  Id apply_as(const Codec* stored, const OpDef& op, const std::vector<Id>& inputs, float factor,
              const Attributes& attributes);

  size_t step_count() const { return steps_.size(); }
  std::string step_name(size_t step) const;
  const OpDef& op(size_t step) const { return *steps_[step].op; }
  const Buffer& output(size_t step) const { return tensors_[steps_[step].output].buffer; }
  // Whether a later step reads it.
  bool is_used(size_t step) const;

  // As one kernel, with memory for these outputs, which are not numbers before. Throws Bug when
  // something was written behind their ends. The steps are good while the memory is.
  struct Prepared {
    std::deque<std::vector<Buffer>> buffers;
    std::vector<std::unique_ptr<Memory>> memory;  // by step, null: not stored
    std::vector<std::unique_ptr<Memory>> turned;  // the same for the other orientation
    std::vector<ChainStep> steps;
  };
  std::unique_ptr<Prepared> prepare(const std::vector<bool>& stored,
                                    const std::vector<bool>& turned = {}) const;
  Contents contents_of(const std::vector<std::unique_ptr<Memory>>& memory) const;
  using Make = std::function<std::unique_ptr<Chain>(const std::vector<ChainStep>&)>;
  Contents run(const std::vector<bool>& stored, const Make& make) const;

  // One step by its own kernel, from what the chain stored; on the chain's device or another.
  std::vector<std::byte> run_alone(size_t step, const Contents& contents) const;
  std::vector<std::byte> run_alone(size_t step, const Contents& contents,
                                   const Device& device) const;

 private:
  struct TensorOf {
    Buffer buffer;
    int step;  // that computes it; −1: an input
    std::shared_ptr<Memory> memory;
  };
  struct Step {
    const OpDef* op;
    std::vector<Id> inputs;
    Id output;
    std::vector<float> factors;  // by output
    Attributes attributes;
  };
  std::vector<Buffer> outputs_of(const Step& step, const Buffer& all) const;
  Launch launch_of(const Step& step, std::span<const Buffer> inputs,
                   std::span<const Buffer> outputs, std::span<std::byte> workspace = {}) const;
  Buffer buffer_of(const Shape& shape, const Codec* codec) const;
  const Codec* codec_for(const std::string& format) const {
    return codec_of(format.empty() ? format_ : format);
  }

  const Device& device_;
  Shape rows_;
  std::string format_;
  bool is_blank_ = false;
  std::vector<TensorOf> tensors_;
  std::deque<Step> steps_;  // launches refer to their factors and attributes
};

// Sums in fp32 in another order, then rounded once: the other of two neighbours at most.
void expect_close(const Tensor& got, const Tensor& want, const FloatFormat& format);

// A chain against itself: whether it leaves the same bits again.
void expect_the_same(const RowChainCase& chain, const std::vector<bool>& stored,
                     const RowChainCase::Make& make, const RowChainCase::Contents& contents);
// Step by step against single kernels; gives what the chain has stored.
RowChainCase::Contents expect_each_step(const RowChainCase& chain, const RowChainCase::Make& make);
// The same, and against itself when inner values are not stored.
void expect_as_single_kernels(const RowChainCase& chain, const RowChainCase::Make& make);

struct RowChainSizes {
  int64_t rows, width, hidden;
  std::string format = "fp16";
  int64_t time = 0;  // of a sample, for what reaches for other rows of it
  int64_t heads = 2;
};
// From the end of attention to the start of the next: a product, the residual sum, a norm, a
// feed-forward layer, another sum and norm, three products.
RowChainCase forward_chain(const Device& device, const RowChainSizes& sizes);
// The same backwards.
RowChainCase backward_chain(const Device& device, const RowChainSizes& sizes);
// Layers that begin with what reaches for other rows of a sample: attention, with relative
// positions, and convolution, forwards and backwards.
RowChainCase attention_chain(const Device& device, const RowChainSizes& sizes);
RowChainCase conv_chain(const Device& device, const RowChainSizes& sizes);
RowChainCase conv_grad_chain(const Device& device, const RowChainSizes& sizes);
// Products of what other products and pointwise ops have computed, and sums of all of them.
RowChainCase crossing_products(const Device& device, int64_t width);

// Calls check(make(device, sizes)) for one row, few and many, and widths of many kinds.
void for_many_sizes(const Device& device,
                    RowChainCase (*make)(const Device& device, const RowChainSizes& sizes),
                    void (*check)(const RowChainCase& chain));

}  // namespace sigma1
