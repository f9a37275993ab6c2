#include "sigma1/backend/cuda/cluster_inputs.cuh"

#include "sigma1/backend/cuda/row_local.cuh"

namespace sigma1::cuda {
namespace {

int width(const Buffer& buffer) { return static_cast<int>(width_of(buffer)); }

}  // namespace

const char* element_of(Type type) {
  if (type == Type::fp32) return "PlainFloat";
  return type == Type::bf16 ? "__nv_bfloat16" : "__half";
}

std::string ClusterInputs::memory(const std::byte* place) {
  source_.memory.push_back(place);
  return fmt::format("p.memory[{}]", source_.memory.size() - 1);
}
std::string ClusterInputs::factor(float value) {
  source_.factors.push_back(value);
  return fmt::format("p.factors[{}]", source_.factors.size() - 1);
}
std::string ClusterInputs::times(float value, const std::string& what) {
  return value == 1 ? what : fmt::format("{} * ({})", factor(value), what);
}

// The same tensor once for each way in which it is needed.
int ClusterInputs::copied(int bytes, const std::string& what, const Buffer& buffer) {
  auto [found, is_new] = copied_.try_emplace({what, buffer.data});
  if (is_new) found->second = phases_.copy(bytes, what, memory(buffer.data));
  return phases_.use(found->second);
}

int ClusterInputs::own_rows(const Buffer& x) {
  return copied(own_rows_bytes(width(x)), fmt::format("copy_own_rows<Block, {}", width(x)), x);
}
int ClusterInputs::all_rows(const Buffer& x) {
  return copied(rows_bytes(padded(width(x))), fmt::format("copy_all_rows<Block, {}", width(x)), x);
}
int ClusterInputs::columns(const Buffer& x) {
  return copied(rows_bytes(padded(slice(width(x)))),
                fmt::format("copy_columns<Block, {}", width(x)), x);
}
int ClusterInputs::other_rows(const Buffer& x, int rows, std::string_view call,
                              std::string_view numbers) {
  return copied(rows * padded(slice(width(x))) * 2,
                fmt::format("{}<Block, {}, {}", call, width(x), numbers), x);
}

ClusterInputs::Vector ClusterInputs::vector(const Buffer& x) {
  Type type = *plain_type(x);
  int bytes = static_cast<int>(x.count()) * (type == Type::fp32 ? 4 : 2);
  return {copied(bytes, fmt::format("copy_vector<Block, {}", bytes), x), element_of(type)};
}

ClusterInputs::Matrix ClusterInputs::matrix(const Buffer& w, int depth, int width, bool transposed,
                                            bool of_terms) {
  int height = transposed ? width : depth, across = transposed ? depth : width;
  bool by_row = transposed != of_terms;
  int stride = padded(by_row ? across : slice(across));
  int place = phases_.copy(
      (by_row ? slice(height) : height) * stride * 2,
      fmt::format("copy_matrix_{}<Block, {}, {}", by_row ? "rows" : "columns", height, across),
      memory(w.data));
  return {place, stride};
}

}  // namespace sigma1::cuda
