// Where in a block's shared memory what a cluster's steps leave for each other lies. Time is
// counted in phases, from one meeting of the cluster's blocks to the next: blocks of a phase may be
// anywhere in it, so that a place is for one thing in each. Private to this folder.
#pragma once

#include <algorithm>
#include <vector>

namespace sigma1::cuda {

struct PhasePlace {
  int bytes = 0;
  int first = 0, last = 0;  // phases
  int offset = 0;
};

// Sets offsets; gives how many bytes are used.
inline int set_offsets(std::vector<PhasePlace>& places) {
  std::vector<PhasePlace*> set;
  int room = 0;
  for (PhasePlace& next : places) {
    int offset = 0;
    for (const PhasePlace* each : set) {  // by offset
      bool meets = each->first <= next.last && next.first <= each->last;
      if (!meets || each->offset + each->bytes <= offset) continue;
      if (offset + next.bytes <= each->offset) break;
      offset = each->offset + each->bytes;
    }
    next.offset = offset;
    room = std::max(room, offset + next.bytes);
    auto behind = std::ranges::upper_bound(set, offset, {}, &PhasePlace::offset);
    set.insert(behind, &next);
  }
  return room;
}

}  // namespace sigma1::cuda
