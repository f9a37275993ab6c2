// What of a session outlives it: its checkpoints, written and read.
#include <nlohmann/json.hpp>

#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Session::Session(const Checkpoint& checkpoint, const Corpus* corpus, const Device& device)
    : corpus_(corpus), store_(device) {
  const Metadata& metadata = checkpoint.file.metadata();
  auto text = [&](const char* key) {
    auto found = metadata.find(key);
    if (found == metadata.end()) {
      throw Error("{}: expected a checkpoint of sigma1 train, got one without '{}'",
                  checkpoint.file.path().string(), key);
    }
    return found->second;
  };
  config_ = TrainConfig::from_json(text("config"), checkpoint.file.path().string());
  vocabulary_ = Vocabulary::parse(text("vocabulary"));
  if (corpus && !(corpus->vocabulary == vocabulary_)) {
    throw Error("{}: expected the {} {}s of its training text, got a text of {} {}s",
                checkpoint.file.path().string(), vocabulary_.known(), vocabulary_.token_name(),
                corpus->vocabulary.known(), corpus->vocabulary.token_name());
  }
  config_.size.vocabulary = static_cast<int64_t>(vocabulary_.size());
  Json state = Json::parse(text("state"), nullptr, false);
  if (!state.is_object()) {
    throw Error("{}: its state is not JSON", checkpoint.file.path().string());
  }
  alignment_ = {state.value("joins", decltype(Alignment::weights){}),
                state.value("settings", decltype(Alignment::settings){})};
  scaler_.scale = state.value("loss_scale", scaler_.scale);
  scaler_.good_steps = state.value("good_steps", int64_t{0});
  scaler_.skipped = state.value("skipped", int64_t{0});
  step_ = checkpoint.step;
  if (corpus) config_.world = ranks().size();
  config_.check();
  build();
  restore(checkpoint);
}

void Session::restore(const Checkpoint& checkpoint) {
  for (const KeptTensor& kept : kept_) {
    const StoredTensor& tensor = checkpoint.file.at(kept.name);
    if (tensor.shape != kept.shape || tensor.dtype != kept.dtype) {
      throw Error("{}: {}: expected {} {}, got {} {}", checkpoint.file.path().string(), kept.name,
                  kept.dtype, to_string(kept.shape), tensor.dtype, to_string(tensor.shape));
    }
    if (store_.contains(kept.name)) store_.write_bytes(kept.name, tensor.data);
  }
  copy_weights();
}

void Session::save(const std::filesystem::path& folder) const {
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<std::byte>> contents;
  for (const KeptTensor& kept : kept_) {
    contents.push_back(bytes_in_first_rank(store_, kept));
    tensors.push_back({kept.name, kept.dtype, kept.shape, contents.back()});
  }
  Json state{{"joins", alignment_.weights},
             {"settings", alignment_.settings},
             {"loss_scale", scaler_.scale},
             {"good_steps", scaler_.good_steps},
             {"skipped", scaler_.skipped}};
  Metadata metadata{{"config", config_.to_json()},
                    {"vocabulary", vocabulary_.serialize()},
                    {"state", state.dump()}};
  together(ranks(), [&] {
    if (ranks().rank() > 0) return;
    save_checkpoint(folder, step_, tensors, metadata,
                    static_cast<int>(std::min<int64_t>(config_.keep_checkpoints, 1 << 30)));
  });
}

int64_t Session::checkpoint_bytes() const {
  int64_t bytes = 0;
  for (const KeptTensor& kept : kept_) bytes += kept.bytes;
  return bytes;
}

}  // namespace sigma1
