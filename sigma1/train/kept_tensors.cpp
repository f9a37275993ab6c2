#include "sigma1/train/kept_tensors.h"

#include "sigma1/backend/node_call.h"
#include "sigma1/base/communicator.h"
#include "sigma1/train/stored_model.h"

namespace sigma1 {
namespace {

std::string dtype_of(const Buffer& buffer) {
  if (buffer.codec == nullptr) return buffer.kind == Kind::index ? "I32" : "F32";
  return dtype_of(buffer.codec->cast().format);
}

KeptTensor described(const std::string& name, const Buffer& buffer) {
  int64_t each = buffer.codec ? buffer.codec->bytes() : 4;
  return {name, dtype_of(buffer), buffer.shape, buffer.count() * each};
}

}  // namespace

std::vector<KeptTensor> kept_tensors(const StepGraph& update, const Owners& owners,
                                     const std::set<std::string>& as_copies) {
  std::map<std::string, int64_t> owner_of;
  for (const auto& [parameter, owner] : owners) {
    for (auto name : {moment_name, second_moment_name, master_name}) {
      owner_of[name(parameter)] = owner;
    }
    if (as_copies.contains(parameter)) owner_of[parameter] = owner;
  }
  std::vector<KeptTensor> kept;
  for (const auto& [output, name] : update.stored) {
    kept.push_back(described(name, buffer_of(*update.graph, update.graph->output(output))));
    if (auto found = owner_of.find(name); found != owner_of.end())
      kept.back().owner = found->second;
  }
  return kept;
}

KeptTensor kept_tensor(const Store& store, const std::string& name) {
  return described(name, store.at(name));
}

std::vector<std::byte> bytes_in_first_rank(const Store& store, const KeptTensor& tensor) {
  using Piece = Communicator::Piece;
  Communicator& all = ranks();
  bool is_first = all.rank() == 0;
  if (tensor.owner <= 0) return is_first ? store.read_bytes(tensor.name) : std::vector<std::byte>();
  std::vector<std::byte> bytes;
  if (all.rank() == tensor.owner) bytes = store.read_bytes(tensor.name);
  if (is_first) bytes.resize(static_cast<size_t>(tensor.bytes));
  std::vector<Piece> sends(static_cast<size_t>(all.size())), receives = sends;
  if (all.rank() == tensor.owner) sends[0] = {bytes.data(), tensor.bytes};
  if (is_first) receives[static_cast<size_t>(tensor.owner)] = {bytes.data(), tensor.bytes};
  all.exchange(sends, receives);
  return is_first ? bytes : std::vector<std::byte>();
}

}  // namespace sigma1
