#include "sigma1/base/mpi_ranks.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include "sigma1/base/error.h"
#include "sigma1/base/rank_watch.h"

namespace sigma1 {
namespace {

using Clock = std::chrono::steady_clock;

class MpiRanks : public Communicator {
 public:
  MpiRanks() {
    if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) throw Error("ranks: MPI does not start");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm near = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &near_);
    MPI_Comm_rank(near, &near_rank_);
    if (near_ > 1) watch(near);
    MPI_Comm_free(&near);
  }
  ~MpiRanks() override {
    watch_.reset();
    if (signs_ != MPI_WIN_NULL) MPI_Win_free(&signs_);
    MPI_Finalize();
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int on_this_machine() const override { return near_; }
  int rank_on_this_machine() const override { return near_rank_; }
  void set_timeout(double seconds) override {
    timeout_ = seconds;
    if (watch_) watch_->set_timeout(seconds);
  }
  void expect_long_work(bool expected) override { long_work_ = expected; }
  [[noreturn]] void abort(int exit_code) override {
    if (watch_) watch_->leave();
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

  void exchange(std::span<const Piece> sends, std::span<const Piece> receives) override {
    auto start = Clock::now();
    requests_.clear();
    partners_.clear();
    // Receives first: they tell best whom one waits for.
    for (int r = 0; r < size_; ++r) post(receives[static_cast<size_t>(r)], r, MPI_Irecv);
    for (int r = 0; r < size_; ++r) post(sends[static_cast<size_t>(r)], r, MPI_Isend);
    const Piece &from = sends[static_cast<size_t>(rank_)],
                &to = receives[static_cast<size_t>(rank_)];
    if (from.bytes > 0 && from.data != to.data)
      std::memcpy(to.data, from.data, static_cast<size_t>(from.bytes));
    wait();
    exchange_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  void watch(MPI_Comm near) {
    void* own = nullptr;
    MPI_Win_allocate_shared(sizeof(RankSign), 1, MPI_INFO_NULL, near, &own, &signs_);
    new (own) RankSign;
    int self[] = {rank_, static_cast<int>(getpid())};
    std::vector<int> all(2 * static_cast<size_t>(near_));
    MPI_Allgather(self, 2, MPI_INT, all.data(), 2, MPI_INT, near);
    std::vector<RankWatch::Neighbour> neighbours;
    for (int i = 0; i < near_; ++i) {
      MPI_Aint bytes = 0;
      int unit = 0;
      RankSign* sign = nullptr;
      MPI_Win_shared_query(signs_, i, &bytes, &unit, &sign);
      auto at = 2 * static_cast<size_t>(i);
      neighbours.push_back({all[at], all[at + 1], sign});
    }
    watch_.emplace(std::move(neighbours), rank_, [this](const std::string& what) {
      tell(what);
      is_one_lost_ = true;
    });
  }

  // MPI counts in int.
  template <class Start>
  void post(const Piece& piece, int partner, Start start) {
    constexpr int64_t kMost = int64_t{1} << 30;
    if (partner == rank_) return;
    for (int64_t first = 0; first < piece.bytes; first += kMost) {
      partners_.push_back(partner);
      start(piece.data + first, static_cast<int>(std::min(kMost, piece.bytes - first)), MPI_BYTE,
            partner, 0, MPI_COMM_WORLD, &requests_.emplace_back(MPI_REQUEST_NULL));
    }
  }

  void wait() {
    // A message between processes of one machine takes microseconds; after that others may need the
    // core more.
    constexpr int kLooks = 200;
    constexpr auto kPause = std::chrono::microseconds(50);
    // Time in which this process was itself stopped, and could not have seen an answer, is not
    // waited.
    constexpr std::chrono::duration<double> kLongestLook(0.5);
    std::chrono::duration<double> waited(0);
    Clock::time_point last = Clock::now();
    for (int look = 0;; ++look) {
      int done = 0;
      done_.resize(requests_.size());
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done, done_.data(),
                   MPI_STATUSES_IGNORE);
      if (done == MPI_UNDEFINED || all_done()) break;
      Clock::time_point now = Clock::now();
      waited += std::min<std::chrono::duration<double>>(now - last, kLongestLook);
      last = now;
      if (is_one_lost_) abort(kRankLost);  // MPI is this thread's alone
      if (waited.count() > allowed()) lose();
      if (look < kLooks) {
        std::this_thread::yield();
        continue;
      }
      if (watch_) watch_->wait_for(first_missing());
      std::this_thread::sleep_for(kPause);
    }
    if (watch_) watch_->wait_for(RankSign::kNobody);
  }

  int first_missing() const {
    size_t missing = 0;
    while (requests_[missing] == MPI_REQUEST_NULL) ++missing;
    return partners_[missing];
  }

  bool all_done() const {
    return std::ranges::all_of(requests_, [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
  }

  // Several ranks find out at about the same time; the lowest tells it and ends the others, which
  // takes the launcher a moment.
  [[noreturn]] void lose() {
    constexpr int kMostSeconds = 10;
    int missing = watch_ ? watch_->awaited() : first_missing();
    int turn = rank_ - (missing < rank_ ? 1 : 0);
    std::this_thread::sleep_for(std::chrono::seconds(std::min(2 * turn, kMostSeconds)));
    if (!watch_ || watch_->may_tell()) {
      tell(fmt::format("rank {} has not answered for {} s: it hangs or was stopped", missing,
                       allowed()));
    }
    abort(kRankLost);
  }

  void tell(const std::string& what) const {
    fmt::print(stderr, "sigma1: {}; all {} ranks end, --resume goes on from the last checkpoint\n",
               what, size_);
  }

  // A watch knows better than whoever waits: it comes first.
  double allowed() const {
    constexpr double kAfterWatch = 3;
    return (long_work_ ? kLongWork : 1) * timeout_ + (watch_ ? kAfterWatch : 0);
  }

  int rank_ = 0, size_ = 1, near_ = 1, near_rank_ = 0;
  double timeout_ = 60;
  bool long_work_ = true;  // until training starts: texts take their time to be read
  std::atomic<bool> is_one_lost_ = false;
  std::vector<MPI_Request> requests_;
  std::vector<int> partners_, done_;
  MPI_Win signs_ = MPI_WIN_NULL;
  std::optional<RankWatch> watch_;
};

}  // namespace

std::unique_ptr<Communicator> connect_mpi() { return std::make_unique<MpiRanks>(); }

bool has_mpi() { return true; }

}  // namespace sigma1
