#include "sigma1/exchange/onnx_model.h"

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/machine.h"
#include "sigma1/base/protobuf.h"

namespace sigma1 {
namespace {

using namespace protobuf;

// Numbers of fields, and of types, in onnx.proto.
constexpr uint64_t kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7,
                   kOpsetImport = 8;
constexpr uint64_t kOpsetDomain = 1, kOpsetVersion = 2;
constexpr uint64_t kGraphNode = 1, kGraphName = 2, kGraphConstant = 5, kGraphInput = 11,
                   kGraphOutput = 12;
constexpr uint64_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOp = 4, kNodeAttribute = 5;
constexpr uint64_t kAttributeName = 1, kAttributeFloat = 2, kAttributeInt = 3, kAttributeInts = 8,
                   kAttributeType = 20;
constexpr uint64_t kIsFloat = 1, kIsInt = 2, kIsInts = 7;
constexpr uint64_t kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9;
constexpr uint64_t kReal = 1, kIndex = 7, kTruth = 9;
constexpr uint64_t kValueName = 1, kValueType = 2, kTypeTensor = 1, kElementType = 1, kShape = 2,
                   kDimension = 1, kDimensionSize = 1;
constexpr uint64_t kFileVersion = 8;  // the ir_version that came with opset 17

uint64_t element_type(Kind kind) { return kind == Kind::index ? kIndex : kReal; }

std::string value_info(const std::string& name, const TensorType& type) {
  std::string shape;
  for (int64_t size : type.shape)
    shape += bytes_field(kDimension, number_field(kDimensionSize, static_cast<uint64_t>(size)));
  std::string tensor =
      number_field(kElementType, element_type(type.kind)) + bytes_field(kShape, shape);
  return bytes_field(kValueName, name) + bytes_field(kValueType, bytes_field(kTypeTensor, tensor));
}

struct AttributeContent {
  std::string operator()(int64_t value) const {
    return number_field(kAttributeInt, static_cast<uint64_t>(value)) +
           number_field(kAttributeType, kIsInt);
  }
  std::string operator()(double value) const {
    return float_field(kAttributeFloat, static_cast<float>(value)) +
           number_field(kAttributeType, kIsFloat);
  }
  std::string operator()(const std::vector<int64_t>& values) const {
    std::string content;
    for (int64_t value : values)
      content += number_field(kAttributeInts, static_cast<uint64_t>(value));
    return content + number_field(kAttributeType, kIsInts);
  }
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

void OnnxModel::input(const std::string& name, const TensorType& type) {
  inputs_ += bytes_field(kGraphInput, value_info(name, type));
}

void OnnxModel::output(const std::string& name, const std::string& value, const TensorType& type) {
  nodes_ +=
      bytes_field(kGraphNode, bytes_field(kNodeInput, value) + bytes_field(kNodeOutput, name) +
                                  bytes_field(kNodeOp, "Identity"));
  outputs_ += bytes_field(kGraphOutput, value_info(name, type));
}

// Names of our nodes have no colon, so that these are not theirs.
std::string OnnxModel::new_name() { return fmt::format("{}:{}", path_, used_[path_]++); }

std::string OnnxModel::node(const std::string& op, const Names& inputs,
                            const std::vector<OnnxAttribute>& attributes) {
  return node(op, inputs, attributes, 1).front();
}

OnnxModel::Names OnnxModel::node(const std::string& op, const Names& inputs,
                                 const std::vector<OnnxAttribute>& attributes, size_t outputs) {
  std::string content;
  Names made;
  for (const std::string& input : inputs) content += bytes_field(kNodeInput, input);
  for (size_t i = 0; i < outputs; ++i) {
    made.push_back(new_name());
    content += bytes_field(kNodeOutput, made.back());
  }
  content += bytes_field(kNodeName, made.front()) + bytes_field(kNodeOp, op);
  for (const OnnxAttribute& attribute : attributes)
    content += bytes_field(kNodeAttribute, bytes_field(kAttributeName, attribute.name) +
                                               std::visit(AttributeContent{}, attribute.value));
  nodes_ += bytes_field(kGraphNode, content);
  return made;
}

void OnnxModel::constant(const std::string& name, const Shape& shape, uint64_t type,
                         std::string data) {
  std::string content;
  for (int64_t size : shape) content += number_field(kTensorDims, static_cast<uint64_t>(size));
  content += number_field(kTensorType, type) + bytes_field(kTensorName, name) +
             bytes_head(kTensorRaw, data.size());
  std::string head = bytes_head(kGraphConstant, content.size() + data.size()) + content;
  constants_.push_back({std::move(head), std::move(data)});
}

void OnnxModel::parameter(const std::string& name, const Shape& shape,
                          const std::vector<float>& numbers) {
  constant(name, shape, kReal, bytes_of(numbers));
}

std::string OnnxModel::reals(const Shape& shape, const std::vector<float>& numbers) {
  std::string name = new_name();
  constant(name, shape, kReal, bytes_of(numbers));
  return name;
}

std::string OnnxModel::indices(const std::vector<int64_t>& numbers) {
  std::string name = new_name();
  constant(name, {static_cast<int64_t>(numbers.size())}, kIndex, bytes_of(numbers));
  return name;
}

std::string OnnxModel::truths(const Shape& shape, const std::vector<bool>& values) {
  std::string name = new_name(), data;
  for (bool value : values) data += static_cast<char>(value);
  constant(name, shape, kTruth, std::move(data));
  return name;
}

std::string OnnxModel::scaled(const std::string& x, double factor) {
  return factor == 1 ? x : node("Mul", {x, real(factor)});
}

std::string OnnxModel::reshaped(const std::string& x, const Shape& shape) {
  return node("Reshape", {x, indices(shape)});
}

void OnnxModel::write(const std::string& path) const {
  std::string name = bytes_field(kGraphName, "sigma1");
  size_t size = nodes_.size() + inputs_.size() + outputs_.size() + name.size();
  for (const Constant& each : constants_) size += each.head.size() + each.data.size();
  constexpr size_t kMost = (size_t{1} << 31) - 1024;
  if (size > kMost)
    throw Error("{}: expected a model below 2 GiB, which is what ONNX holds, got {} bytes", path,
                size);
  std::string head = number_field(kIrVersion, kFileVersion) + bytes_field(kProducer, "sigma1") +
                     bytes_field(kProducerVersion, version()) +
                     bytes_field(kOpsetImport, bytes_field(kOpsetDomain, "") +
                                                   number_field(kOpsetVersion, kOpset)) +
                     bytes_head(kGraph, size) + name;
  std::vector<std::string_view> pieces{head, nodes_};
  for (const Constant& each : constants_) pieces.insert(pieces.end(), {each.head, each.data});
  pieces.insert(pieces.end(), {inputs_, outputs_});
  write_file(path, pieces);
}

}  // namespace sigma1
