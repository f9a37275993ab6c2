// Ranks of one machine look after each other. A rank that is killed or stopped cannot say so, its
// launcher may be told to be quiet, and whoever waits for it does not know what to wait for.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace sigma1 {

// What a rank shows of itself, in memory that all ranks of a machine see.
struct RankSign {
  static constexpr int kNobody = -1;
  std::atomic<int64_t> beat = 0;  // when it last ran, by the machine's clock, in milliseconds
  std::atomic<int> waits_for = kNobody;
  std::atomic<bool> left = false;  // of its own accord: it has said why
  std::atomic<bool> told = false;  // in the first one's: somebody has told of a lost rank
};

class RankWatch {
 public:
  struct Neighbour {
    int rank;
    pid_t process;
    RankSign* sign;
  };
  // Of this machine, with this rank itself, in order. `lost` is called once, by a thread of the
  // watch, in one of them all: in words, what has become of which rank.
  RankWatch(std::vector<Neighbour> all, int own_rank,
            std::function<void(const std::string& what)> lost);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Seconds after which a process that does not run is lost.
  void set_timeout(double seconds) { timeout_ = seconds; }
  // What this rank waits for, a rank or kNobody; and who it is in truth, since that one may be
  // waiting for another. One that does not run waits for nobody.
  void wait_for(int rank) { own().waits_for = rank; }
  int awaited() const;
  // Others shall not miss this rank.
  void leave() { own().left = true; }
  // Whether this rank is the first of its machine to tell of a lost one.
  bool may_tell() { return !all_.front().sign->told.exchange(true); }

 private:
  using Seconds = std::chrono::duration<double>;
  struct Seen {
    int64_t beat = 0;
    Seconds silent{0}, gone{0};
  };
  RankSign& own() const;
  void look(const std::stop_token& stop);
  // In words, when it is lost.
  std::string judge(const Neighbour& neighbour, Seen& seen, Seconds passed) const;

  std::vector<Neighbour> all_;
  int own_rank_;
  std::function<void(const std::string&)> lost_;
  std::atomic<double> timeout_ = 60;
  std::jthread thread_;  // the last: it ends first
};

}  // namespace sigma1
