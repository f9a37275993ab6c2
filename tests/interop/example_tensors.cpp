#include "tests/interop/example_tensors.h"

namespace sigma1 {

void ExampleTensors::add(const std::string& name, const Tensor& tensor, Kind kind) {
  if (kind == Kind::index) return add_as<int64_t>(name, "I64", tensor);
  add_as<float>(name, "F32", tensor);
}

template <class T>
void ExampleTensors::add_as(const std::string& name, const std::string& dtype,
                            const Tensor& tensor) {
  std::vector<T> numbers;
  for (double number : tensor.data) numbers.push_back(static_cast<T>(number));
  data_.emplace_back(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  tensors_.push_back({name, dtype, tensor.shape, {}});
}

void ExampleTensors::write(const std::string& path) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    tensors_[i].data = {reinterpret_cast<const std::byte*>(data_[i].data()), data_[i].size()};
  write_safetensors(path, tensors_);
}

}  // namespace sigma1
