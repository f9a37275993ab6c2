#include "sigma1/train/same_everywhere.h"

#include "sigma1/base/communicator.h"
#include "sigma1/base/crc32c.h"
#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

// Of a source, which has no bounds, by what it gives first.
uint32_t checksum(const TrainConfig& config, const Corpus& corpus) {
  if (!corpus.source) return crc32c(std::as_bytes(std::span(corpus.train)));
  std::vector<int32_t> all;
  for (const auto& [name, indices] : corpus.source->training(config, 0).indices) {
    all.insert(all.end(), indices.begin(), indices.end());
  }
  return crc32c(std::as_bytes(std::span(all)));
}

}  // namespace

void expect_the_same_everywhere(const Session& session, const Corpus& corpus) {
  std::string device = session.store().device().name();
  std::vector<std::string> all = gather_texts(
      ranks(), fmt::format("{} {} {} {} {}", session.config().to_json(), session.step(),
                           session.vocabulary().serialize(), checksum(session.config(), corpus),
                           device.substr(0, device.find(':'))));
  together(ranks(), [&] {
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i] == all[0]) continue;
      throw Error(
          "ranks: expected the same settings, texts, checkpoints and kind of device, got others in "
          "rank {}",
          i);
    }
  });
}

}  // namespace sigma1
