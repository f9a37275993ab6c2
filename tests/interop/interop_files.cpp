// Writes files for others' tools to judge and reads theirs:
//   interop_files events FOLDER            a run of two parts for TensorBoard
//   interop_files write-safetensors FILE   a tensor of every dtype
//   interop_files read-safetensors FILE    prints a line of name, dtype, shape and bytes for each
//   interop_files onnx FOLDER              models as ONNX, with inputs and what we make of them
//   interop_files bert FOLDER              BERTs for transformers, likewise
//   interop_files bert-scores FOLDER       what a checkpoint there makes of inputs.safetensors
#include <fmt/ranges.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/runtime/safetensors.h"
#include "sigma1/train/event_file.h"
#include "tests/interop/bert_files.h"
#include "tests/interop/onnx_files.h"

namespace sigma1 {
namespace {

void write_part(const std::string& folder, int64_t last_step, int64_t end, double offset) {
  EventFile file(folder, last_step);
  std::array<double, 3> limits = {-1, 0.5, 1e300};
  for (int64_t step = last_step + 1; step < end; ++step) {
    auto s = static_cast<double>(step);
    file.scalar("train/loss", step, offset + s / 8);
    std::array<double, 3> counts = {1, s, 3};
    file.histogram("weights/σ", step, {limits, counts, -2, 7, s, 64});
  }
  file.flush();
}

// Every byte once, so that each 8-bit code and both bytes of each 16-bit one are told apart.
void write_example(const std::string& path) {
  std::array<uint8_t, 256> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  std::vector<StoredTensor> tensors = {
      {"scalar", "U8", {}, std::as_bytes(std::span(bytes).first(1))}, {"empty", "F32", {0, 3}, {}}};
  for (const char* dtype : {"F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I32", "I64", "U8"})
    tensors.push_back({fmt::format("layer/{}", dtype),
                       dtype,
                       {4, 64 / dtype_bytes(dtype)},
                       std::as_bytes(std::span(bytes))});
  write_safetensors(path, tensors, {{"step", "12"}, {"note", "\"ß\"\n"}});
}

void print_tensors(const std::string& path) {
  SafetensorsFile file(path);
  for (const StoredTensor& tensor : file.tensors()) {
    fmt::print("{} {} {} ", tensor.name, tensor.dtype, fmt::join(tensor.shape, ","));
    for (std::byte byte : tensor.data) fmt::print("{:02x}", static_cast<int>(byte));
    fmt::print("\n");
  }
  for (const auto& [name, value] : file.metadata()) fmt::print("{}={}\n", name, value);
}

int run(const std::string& action, const std::string& path) {
  if (action == "events") {
    write_part(path, -1, 6, 100);
    write_part(path, 3, 8, 0);
  } else if (action == "write-safetensors") {
    write_example(path);
  } else if (action == "read-safetensors") {
    print_tensors(path);
  } else if (action == "onnx") {
    write_onnx_examples(path);
  } else if (action == "bert") {
    write_bert_examples(path);
  } else if (action == "bert-scores") {
    write_bert_scores(path);
  } else {
    throw Error(
        "expected events, write-safetensors, read-safetensors, onnx, bert or bert-scores, got {}",
        action);
  }
  return 0;
}

}  // namespace
}  // namespace sigma1

int main(int count, char** arguments) try {
  if (count != 3) throw sigma1::Error("expected an action and a path");
  return sigma1::run(arguments[1], arguments[2]);
} catch (const std::exception& error) {
  fmt::print(stderr, "interop_files: {}\n", error.what());
  return 1;
}
