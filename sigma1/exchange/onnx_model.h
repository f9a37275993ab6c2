// A file that others' programs run: ONNX, a protobuf message of nodes in order and constants. This
// knows the format alone; what a graph of ours is there, onnx_export.h says.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sigma1/graph/tensor.h"

namespace sigma1 {

struct OnnxAttribute {
  std::string name;
  std::variant<int64_t, double, std::vector<int64_t>> value;
};

class OnnxModel {
 public:
  using Names = std::vector<std::string>;

  static constexpr int64_t kOpset = 17;

  // All values added from now on are named after this.
  void set_path(const std::string& path) { path_ = path; }

  void input(const std::string& name, const TensorType& type);
  void output(const std::string& name, const std::string& value, const TensorType& type);

  // A node with one output, or several. Gives their names.
  std::string node(const std::string& op, const Names& inputs,
                   const std::vector<OnnxAttribute>& attributes = {});
  Names node(const std::string& op, const Names& inputs,
             const std::vector<OnnxAttribute>& attributes, size_t outputs);

  // Constants. A parameter keeps its name.
  void parameter(const std::string& name, const Shape& shape, const std::vector<float>& numbers);
  std::string reals(const Shape& shape, const std::vector<float>& numbers);
  std::string real(double number) { return reals({}, {static_cast<float>(number)}); }
  std::string indices(const std::vector<int64_t>& numbers);
  std::string truths(const Shape& shape, const std::vector<bool>& values);

  // x · factor; x itself where that is 1.
  std::string scaled(const std::string& x, double factor);
  std::string reshaped(const std::string& x, const Shape& shape);

  // Throws Error when it would be over 2 GiB, which protobuf does not hold.
  void write(const std::string& path) const;

 private:
  struct Constant {
    std::string head;  // the message up to its data
    std::string data;
  };

  std::string new_name();
  void constant(const std::string& name, const Shape& shape, uint64_t type, std::string data);

  std::string path_;
  std::map<std::string, int> used_;
  std::string nodes_, inputs_, outputs_;  // fields, one after the other
  std::vector<Constant> constants_;
};

}  // namespace sigma1
