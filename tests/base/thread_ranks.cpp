#include "tests/base/thread_ranks.h"

#include <barrier>
#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sigma1 {
namespace {

using Piece = Communicator::Piece;

struct World {
  explicit World(int size) : sends(static_cast<size_t>(size)), meeting(size) {}
  std::vector<std::span<const Piece>> sends;
  std::barrier<> meeting;
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(World& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_.sends.size()); }
  [[noreturn]] void abort(int) override { std::terminate(); }
  void set_timeout(double seconds) override { timeout_ = seconds; }
  void expect_long_work(bool expected) override { long_work_ = expected; }

  void exchange(std::span<const Piece> sends, std::span<const Piece> receives) override {
    auto start = std::chrono::steady_clock::now();
    world_.sends[static_cast<size_t>(rank_)] = sends;
    world_.meeting.arrive_and_wait();
    std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    exchange_seconds_ += waited.count();
    bool fits = true;
    for (size_t r = 0; r < receives.size(); ++r) {
      if (world_.sends[r].empty()) throw std::logic_error("another rank has failed");
      const Piece& sent = world_.sends[r][static_cast<size_t>(rank_)];
      fits = fits && sent.bytes == receives[r].bytes;
      if (!fits || sent.bytes == 0 || sent.data == receives[r].data) continue;
      std::memcpy(receives[r].data, sent.data, static_cast<size_t>(sent.bytes));
    }
    world_.meeting.arrive_and_wait();
    if (!fits) throw std::logic_error("a rank sent more or less than another expects");
    if (waited.count() > (long_work_ ? kLongWork * timeout_ : timeout_))
      throw std::logic_error("a rank was waited for too long");
  }

 private:
  World& world_;
  int rank_;
  double timeout_ = 60;
  bool long_work_ = true;
};

}  // namespace

void run_as_ranks(int count, const std::function<void(int rank)>& body) {
  World world(count);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadRank communicator(world, rank);
        UseRanks use(communicator);
        try {
          body(rank);
        } catch (...) {
          failures[static_cast<size_t>(rank)] = std::current_exception();
          world.sends[static_cast<size_t>(rank)] = {};  // what it sent is gone with it
          world.meeting.arrive_and_drop();
        }
      });
    }
  }
  for (const std::exception_ptr& each : failures) {
    if (each) std::rethrow_exception(each);
  }
}

}  // namespace sigma1
