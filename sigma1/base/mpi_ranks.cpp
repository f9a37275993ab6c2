#include "sigma1/base/mpi_ranks.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "sigma1/base/error.h"

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
    MPI_Comm_free(&near);
    done_.resize(2 * static_cast<size_t>(size_));
  }
  ~MpiRanks() override { MPI_Finalize(); }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int on_this_machine() const override { return near_; }
  int rank_on_this_machine() const override { return near_rank_; }
  void set_timeout(double seconds) override { timeout_ = seconds; }
  [[noreturn]] void abort(int exit_code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

  void exchange(std::span<const Piece> sends, std::span<const Piece> receives) override {
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
  }

 private:
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
      if (done == MPI_UNDEFINED || all_done()) return;
      Clock::time_point now = Clock::now();
      waited += std::min<std::chrono::duration<double>>(now - last, kLongestLook);
      last = now;
      if (waited.count() > timeout_) lose();
      if (look < kLooks) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kPause);
      }
    }
  }

  bool all_done() const {
    return std::ranges::all_of(requests_, [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
  }

  // Several ranks find out at about the same time; the lowest tells it and ends the others, which
  // takes the launcher a moment.
  [[noreturn]] void lose() {
    constexpr int kMostSeconds = 10;
    size_t missing = 0;
    while (requests_[missing] == MPI_REQUEST_NULL) ++missing;
    int turn = rank_ - (partners_[missing] < rank_ ? 1 : 0);
    std::this_thread::sleep_for(std::chrono::seconds(std::min(2 * turn, kMostSeconds)));
    fmt::print(
        stderr,
        "sigma1: rank {} of {} has not answered for {} s: it hangs or was stopped; all ranks "
        "end, --resume goes on from the last checkpoint\n",
        partners_[missing], size_, timeout_);
    abort(kRankLost);
  }

  int rank_ = 0, size_ = 1, near_ = 1, near_rank_ = 0;
  double timeout_ = 600;  // until training starts: texts take their time to be read
  std::vector<MPI_Request> requests_;
  std::vector<int> partners_, done_;
};

}  // namespace

std::unique_ptr<Communicator> connect_mpi() { return std::make_unique<MpiRanks>(); }

bool has_mpi() { return true; }

}  // namespace sigma1
