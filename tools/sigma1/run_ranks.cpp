#include "tools/sigma1/run_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

constexpr int kUserError = 2, kInternalError = 70;

[[noreturn]] void end_all(Communicator& all, int exit_code, const char* text) {
  fmt::print(stderr, "sigma1: rank {} of {}: {}\n", all.rank(), all.size(), text);
  all.abort(exit_code);
  std::_Exit(exit_code);
}

[[noreturn]] void leave_together(Communicator& all, const char* text) {
  if (all.rank() == 0) fmt::print(stderr, "sigma1: {}\n", text);
  barrier(all);
  throw Told{kUserError};
}

}  // namespace

void run_ranks(const std::function<void()>& body) {
  std::unique_ptr<Communicator> all = connect_ranks();
  UseRanks use(*all);
  if (all->size() == 1) return body();
  try {
    body();
  } catch (const NotFinite& error) {
    leave_together(*all, error.what());  // ranks agree on it
  } catch (const Error& error) {
    if (!all->failed_together()) end_all(*all, kUserError, error.what());
    leave_together(*all, error.what());
  } catch (const std::exception& error) {
    end_all(*all, kInternalError, error.what());
  }
}

int threads_of_rank() {
  int all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  int usable = static_cast<int>(std::thread::hardware_concurrency());
  if (ranks().size() == 1 || usable < all) return 0;
  return std::max(1, all / ranks().on_this_machine());
}

}  // namespace sigma1
