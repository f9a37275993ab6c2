#include "sigma1/base/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace sigma1 {
namespace {

using Clock = std::chrono::steady_clock;

int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
      .count();
}

bool is_gone(pid_t process) { return kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

RankWatch::RankWatch(std::vector<Neighbour> all, int own_rank,
                     std::function<void(const std::string&)> lost)
    : all_(std::move(all)), own_rank_(own_rank), lost_(std::move(lost)) {
  // Containers may share memory and yet not see each other's processes.
  for (Neighbour& each : all_) {
    if (is_gone(each.process)) each.process = 0;
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
}

RankWatch::~RankWatch() { leave(); }

RankSign& RankWatch::own() const {
  return *std::ranges::find(all_, own_rank_, &Neighbour::rank)->sign;
}

int RankWatch::awaited() const {
  constexpr int64_t kRunsWithin = 1000;  // milliseconds
  int awaited = own_rank_;
  for (size_t hops = 0; hops < all_.size(); ++hops) {
    auto found = std::ranges::find(all_, awaited, &Neighbour::rank);
    if (found == all_.end() || found->sign->waits_for == RankSign::kNobody) break;
    bool runs = awaited == own_rank_ || milliseconds_now() - found->sign->beat < kRunsWithin;
    if (!runs) break;
    awaited = found->sign->waits_for;
  }
  return awaited;
}

void RankWatch::look(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kPause(50);
  // Time in which this process was itself stopped is not counted against others.
  constexpr Seconds kLongestLook(0.5);
  std::vector<Seen> seen(all_.size());
  Clock::time_point last = Clock::now();
  while (!stop.stop_requested()) {
    own().beat = milliseconds_now();
    Clock::time_point now = Clock::now();
    Seconds passed = std::min<Seconds>(now - last, kLongestLook);
    last = now;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].rank == own_rank_ || all_[i].sign->left) continue;
      std::string what = judge(all_[i], seen[i], passed);
      if (what.empty()) continue;
      if (may_tell()) lost_(what);
      return;
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::string RankWatch::judge(const Neighbour& neighbour, Seen& seen, Seconds passed) const {
  // A launcher that ends a job kills all, this one too: it should not call that a loss.
  constexpr Seconds kOutlived(0.25);
  int64_t beat = neighbour.sign->beat;
  seen.silent = beat == seen.beat ? seen.silent + passed : Seconds(0);
  seen.beat = beat;
  bool gone = neighbour.process != 0 && is_gone(neighbour.process);
  seen.gone = gone ? seen.gone + passed : Seconds(0);
  if (seen.gone > kOutlived) {
    return fmt::format("rank {} (process {}) has ended without a word: it was killed or crashed",
                       neighbour.rank, neighbour.process);
  }
  if (seen.silent.count() <= timeout_) return "";
  return fmt::format("rank {} (process {}) has not run for {} s: it was stopped", neighbour.rank,
                     neighbour.process, timeout_.load());
}

}  // namespace sigma1
