// The text of a cluster chain's kernel as it grows, phase by phase: what is where in shared memory
// when, what is sent for from memory and when, and what blocks send each other. A phase begins
// where a block needs what others send. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "sigma1/backend/cuda/cluster_places.cuh"
#include "sigma1/backend/cuda/cluster_sizes.cuh"

namespace sigma1::cuda {

class ClusterPhases {
 public:
  // What a block is sent, or may read, in the next phase.
  struct Sent {
    int place = -1, phase = -1, exchange = -1;
    bool is_source = false;  // others get it from the same place of this block
    bool is_received = false;
  };

  ClusterPhases();

  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    phases_.back() += line_of(format, std::forward<Arguments>(arguments)...);
  }
  // At the end of the phase: nobody in the cluster waits for what goes to memory.
  template <class... Arguments>
  void line_at_end(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    last_lines_ += line_of(format, std::forward<Arguments>(arguments)...);
  }

  // Begins the second phase, which waits for no other block, so that what the first needs has room
  // no longer than that. Later ones wait: nobody is further ahead than a phase.
  void end_first();

  int phase() const { return static_cast<int>(phases_.size()) - 1; }

  // In shared memory, from this phase to the last that uses it.
  int add_place(int bytes);
  int use(int place);

  // A place for what lies in memory. `what`: the call that brings it there, without the place and
  // the variables.
  int copy(int place_bytes, std::string what, std::string memory);

  // A place for so many bytes that other blocks send, `is_source`: from their own.
  Sent add_exchange(int bytes, int place_bytes, bool is_source);
  // A place where other blocks read.
  Sent add_left(int place_bytes);
  // Gives where it is. Begins a phase where it is of this one.
  int receive(Sent& sent);
  // What was sent, or has been read, is no longer needed from others.
  void is_received(bool by_reading = false) {
    received_ = phases_.back().size();
    has_read_ |= by_reading;
  }

  // Sets places, and when copies are sent for; false where there is no room.
  bool end();
  int shared_bytes() const { return shared_bytes_; }
  std::string places() const;  // as constants
  std::string body() const;    // of the kernel

 private:
  struct Copy {
    int place, needed;
    std::string what, memory;
  };

  template <class... Arguments>
  static std::string line_of(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    return "  " + fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  }

  void end_phase();
  void keep_for_others(int place);
  bool fits();
  bool send_early();
  int sent_in(const Copy& copy) const { return places_[static_cast<size_t>(copy.place)].first; }
  int& sent_in(const Copy& copy) { return places_[static_cast<size_t>(copy.place)].first; }
  std::string copies_of(int now, int needed) const;
  std::string expected() const;

  std::vector<std::string> phases_;
  std::string last_lines_;  // of the phase
  std::vector<PhasePlace> places_;
  std::vector<Copy> copies_;
  std::vector<int> exchanges_;   // bytes that come to each block; 0: it reads them
  size_t exchanges_before_ = 0;  // the last phase
  size_t received_ = 0;          // where in the last phase all of them are over
  bool has_read_ = false;        // the last phase has read from others
  int shared_bytes_ = 0;
};

}  // namespace sigma1::cuda
