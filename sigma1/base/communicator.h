// Processes, called ranks, that train one model together. All are built on one exchange of bytes,
// so that sums are ours: in the order of ranks, whatever lies underneath, and so the same bits
// every time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sigma1 {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int on_this_machine() const { return 1; }       // ranks
  virtual int rank_on_this_machine() const { return 0; }  // among them

  struct Piece {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  // Sends sends[r] to every rank r and fills receives[r] from it; both sides know how long a piece
  // is. What a rank sends to itself is copied. All ranks call it, in the same order.
  virtual void exchange(std::span<const Piece> sends, std::span<const Piece> receives) = 0;

  // From now on a rank that is waited for longer than this ends all.
  virtual void set_timeout(double) {}
  // From now on, or no longer, one may have work of its own while others wait, as a checkpoint:
  // they wait kLongWork times as long. All ranks call it.
  static constexpr double kLongWork = 10;
  virtual void expect_long_work(bool) {}
  // Ends every rank, at once.
  [[noreturn]] virtual void abort(int exit_code) = 0;

  // Whether an error was thrown in all ranks, so that one of them may tell it and all may leave.
  bool failed_together() const { return failed_together_; }
  // That this rank has spent in exchanges, waiting for others included.
  double exchange_seconds() const { return exchange_seconds_; }

 protected:
  double exchange_seconds_ = 0;

 private:
  friend void together(Communicator&, const std::function<void()>&);
  bool failed_together_ = false;
};

// The ranks that this thread is one of: alone, unless told otherwise.
Communicator& ranks();
class UseRanks {
 public:
  explicit UseRanks(Communicator& communicator);
  ~UseRanks();
  UseRanks(const UseRanks&) = delete;
  UseRanks& operator=(const UseRanks&) = delete;

 private:
  Communicator* before_;
};

// Rank by rank, the same everywhere.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own);
std::string broadcast_text(Communicator& communicator, const std::string& own, int root = 0);
std::vector<double> gather_numbers(Communicator& communicator, double own);
// Sums of each number over the ranks, in their order.
std::vector<double> sum_over_ranks(Communicator& communicator, const std::vector<double>& own);
bool any_rank(Communicator& communicator, bool own);
void barrier(Communicator& communicator);

// Runs `body` in every rank. Where it throws an Error in one, all throw it: the lowest such rank's.
void together(Communicator& communicator, const std::function<void()>& body);

// The rank that a launcher gave this process, before anything is connected; 0 without a launcher.
int launched_rank();
// The ranks that mpirun or srun started; alone where neither did. Throws Error when there are
// several and this build has no MPI.
std::unique_ptr<Communicator> connect_ranks();
bool has_mpi();

}  // namespace sigma1
