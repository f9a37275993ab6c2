// PyTorch's times for our models: from a file, or measured now by bench/peer/MODEL_torch.py. A step
// is fast only beside what a user would run instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/sigma1/bench.h"

namespace sigma1 {

struct PeerRow {
  std::string context, variant, precision, mode;
  bool same_model = true;  // false: a lighter one
  double ms = 0;
  double gigabytes = 0;  // 0: not known
};

// Rows that did not fail. Throws Error naming the origin; an object {"error": …} is one.
std::vector<PeerRow> parse_peer(std::string_view json, const std::string& origin);

// Of the file, or where that is empty of the script, run for one model (on a GPU unless the device
// is "cpu"). Throws Error in one line
// when python3, the script or what it needs is missing.
std::vector<PeerRow> peer_rows(const std::string& file, const std::string& script,
                               const BenchModel& model, const std::string& device);

struct BenchTime {
  std::string setting;
  double ms;
};

// Our times against the peer's best of the same precision.
std::vector<BenchRow> peer_ratios(const std::vector<BenchTime>& ours,
                                  const std::vector<PeerRow>& peer, const std::string& context);

}  // namespace sigma1
