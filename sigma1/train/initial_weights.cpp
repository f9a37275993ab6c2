#include "sigma1/train/initial_weights.h"

#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

bool is_unit(const TrainConfig& config) {
  return Method::parse(config.method).kind == Method::Kind::unit;
}

std::string metadata_of(const Checkpoint& checkpoint, const std::string& key) {
  const Metadata& metadata = checkpoint.file.metadata();
  auto found = metadata.find(key);
  if (found != metadata.end()) return found->second;
  throw Error("init: expected a checkpoint of sigma1 train, got {} without '{}'",
              checkpoint.file.path().string(), key);
}

// Read through a store of its own format.
std::vector<float> values_of(const StoredTensor& tensor) {
  for (auto [dtype, format] : {std::pair{"F32", "fp32"},
                               {"F16", "fp16"},
                               {"BF16", "bf16"},
                               {"F8_E4M3", "e4m3"},
                               {"F8_E5M2", "e5m2"}}) {
    if (tensor.dtype != dtype) continue;
    Store store;
    store.create(tensor.name, {tensor.shape}, storage_cast(format));
    store.write_bytes(tensor.name, tensor.data);
    return store.read(tensor.name);
  }
  throw Error("init: {}: expected numbers, got {}", tensor.name, tensor.dtype);
}

}  // namespace

InitialWeights::InitialWeights(const TrainConfig& config)
    : checkpoint_(find_checkpoint(config.init)) {
  std::string path = checkpoint_.file.path().string();
  TrainConfig from = TrainConfig::from_json(metadata_of(checkpoint_, "config"), path);
  bool alike =
      is_unit(from) == is_unit(config) && (!is_unit(config) || from.scheme == config.scheme);
  if (!alike) {
    throw Error("init: expected weights of method {} and scheme {}, got {} and {} in {}",
                config.method, config.scheme, from.method, from.scheme, path);
  }
  auto state = nlohmann::json::parse(metadata_of(checkpoint_, "state"), nullptr, false);
  if (!state.is_object()) throw Error("{}: its state is not JSON", path);
  joins_ = state.value("joins", JoinWeights{});
}

void InitialWeights::write(Store& store, const std::vector<std::string>& names) const {
  size_t written = 0;
  for (const std::string& name : names) {
    const StoredTensor* tensor = checkpoint_.file.find(name);
    if (tensor == nullptr) continue;
    const Shape& shape = store.at(name).shape;
    if (tensor->shape != shape) {
      throw Error("init: {}: expected {}, got {} in {}", name, to_string(shape),
                  to_string(tensor->shape), checkpoint_.file.path().string());
    }
    store.write(name, values_of(*tensor));
    ++written;
  }
  if (written == 0) {
    throw Error("init: expected weights of this model, got none in {}",
                checkpoint_.file.path().string());
  }
}

}  // namespace sigma1
