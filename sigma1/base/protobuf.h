// Messages of protobuf as they lie in files: a field is a varint of its number and kind, then its
// content. Enough for what we write (TensorBoard's events, ONNX), so that no library is needed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sigma1::protobuf {

std::string varint(uint64_t value);
std::string number_field(uint64_t field, uint64_t value);
std::string double_field(uint64_t field, double value);
std::string float_field(uint64_t field, float value);
std::string bytes_field(uint64_t field, std::string_view content);
std::string doubles_field(uint64_t field, std::span<const double> values);
// What stands before a content of `size` bytes that is written apart.
std::string bytes_head(uint64_t field, uint64_t size);

}  // namespace sigma1::protobuf
