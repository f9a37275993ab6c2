// Where in shared memory what a row chain's steps leave for each other lies: places are taken for
// some steps, and taken again after those. Private to this folder.
#pragma once

#include <algorithm>
#include <vector>

namespace sigma1::cuda {

class RowPlaces {
 public:
  // The lowest free place for so many bytes until step `last` has read it.
  int take(int bytes, size_t last) {
    std::ranges::sort(taken_, {}, &Taken::offset);
    int offset = 0;
    for (const Taken& each : taken_) {
      if (offset + bytes <= each.offset) break;
      offset = std::max(offset, each.offset + each.bytes);
    }
    taken_.push_back({offset, bytes, last});
    room_ = std::max(room_, offset + bytes);
    return offset;
  }

  // Whether what reads the place of so many bytes last, step `now`, may leave it to what step
  // `last` reads; it is then taken until that.
  bool pass_on(int offset, int bytes, size_t now, size_t last) {
    auto place = std::ranges::find(taken_, offset, &Taken::offset);
    if (place->last != now || place->bytes != bytes) return false;
    place->last = last;
    return true;
  }

  // Those that no step from `first` on reads.
  void free_before(size_t first) {
    std::erase_if(taken_, [&](const Taken& each) { return each.last < first; });
  }

  int room() const { return room_; }  // bytes that were ever taken

 private:
  struct Taken {
    int offset, bytes;
    size_t last;  // the step that reads it last
  };

  std::vector<Taken> taken_;
  int room_ = 0;
};

}  // namespace sigma1::cuda
