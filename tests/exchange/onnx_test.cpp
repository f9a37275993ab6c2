// What an ONNX file of ours says; whether it computes what it should, others judge (tests/interop).
#include <gtest/gtest.h>

#include <map>

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/exchange/onnx_export.h"
#include "sigma1/models/registry.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

ParameterValues numbers_of(const Graph& graph) {
  ParameterValues values;
  for (const auto& [name, tensor] : initial_parameters(graph, 0))
    values[name] = {tensor.data.begin(), tensor.data.end()};
  return values;
}

// Protobuf read back, as far as these tests need it: contents by field number.
class Message {
 public:
  explicit Message(std::string bytes) : bytes_(std::move(bytes)) {
    while (at_ < bytes_.size()) read_field();
  }
  std::vector<std::string> fields(uint64_t number) const {
    auto found = fields_.find(number);
    return found == fields_.end() ? std::vector<std::string>() : found->second;
  }
  std::string text(uint64_t number) const { return fields(number).at(0); }

 private:
  uint64_t read_varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      auto byte = static_cast<unsigned char>(bytes_.at(at_++));
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  }
  void read_field() {
    uint64_t key = read_varint(), kind = key & 7;
    uint64_t size = kind == 0 ? 0 : kind == 2 ? read_varint() : kind == 5 ? 4 : 8;
    if (kind == 0) {
      fields_[key >> 3].push_back(std::to_string(read_varint()));
      return;
    }
    ASSERT_LE(at_ + size, bytes_.size());
    fields_[key >> 3].push_back(bytes_.substr(at_, size));
    at_ += size;
  }

  std::string bytes_;
  size_t at_ = 0;
  std::map<uint64_t, std::vector<std::string>> fields_;
};

class Onnx : public TemporaryFolderTest {
 protected:
  Message written(const OnnxModel& model) {
    std::string path = folder_ / "model.onnx";
    model.write(path);
    return Message(read_file(path));
  }
};

TEST_F(Onnx, AModelHasNodesConstantsInputsAndOutputs) {
  Graph graph;
  build_model(graph, "gpt", {.batch = 2, .time = 4, .width = 8, .hidden = 16, .depth = 1});
  graph.keep_outputs({"scores"});
  Message file = written(onnx_model(graph, numbers_of(graph)));
  EXPECT_EQ(file.text(1), "8");
  EXPECT_EQ(Message(file.text(8)).text(2), "17");
  Message made(file.text(7));
  std::vector<std::string> inputs, outputs, parameters;
  for (const std::string& each : made.fields(11)) inputs.push_back(Message(each).text(1));
  for (const std::string& each : made.fields(12)) outputs.push_back(Message(each).text(1));
  for (const std::string& each : made.fields(5)) {
    std::string name = Message(each).text(8);
    if (name.find(':') == std::string::npos) parameters.push_back(name);
  }
  // The mask belongs to the loss, which was not asked for.
  EXPECT_EQ(inputs, std::vector<std::string>{"tokens"});
  EXPECT_EQ(outputs, std::vector<std::string>{"scores"});
  EXPECT_EQ(parameters.size(), graph.parameters().size());
}

TEST_F(Onnx, EveryNameIsDefinedOnceAndBeforeItIsRead) {
  Graph graph;
  build_model(graph, "char_lm", {.batch = 2, .time = 4, .width = 32, .heads = 2});
  Message made(written(onnx_model(graph, numbers_of(graph))).text(7));
  std::map<std::string, int> known;
  for (const std::string& each : made.fields(11)) ++known[Message(each).text(1)];
  for (const std::string& each : made.fields(5)) ++known[Message(each).text(8)];
  for (const std::string& each : made.fields(1)) {
    Message node(each);
    for (const std::string& input : node.fields(1)) EXPECT_EQ(known[input], 1) << input;
    for (const std::string& output : node.fields(2)) ++known[output];
  }
  for (const auto& [name, count] : known) EXPECT_EQ(count, 1) << name;
}

TEST_F(Onnx, WhatHasNoCounterpartIsNamed) {
  Graph graph;
  build_model(graph, "char_lm", {.width = 32, .heads = 2, .context = "rnn"});
  std::string message = error_of([&] { onnx_model(graph, numbers_of(graph)); });
  EXPECT_NE(message.find("recurrent_highway"), std::string::npos) << message;
  EXPECT_NE(message.find("layer0/recurrence"), std::string::npos) << message;
}

}  // namespace
}  // namespace sigma1
