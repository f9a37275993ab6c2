#include "sigma1/base/communicator.h"

#include <cstdlib>
#include <cstring>

#include "sigma1/base/error.h"
#include "sigma1/base/mpi_ranks.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

class Alone : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void exchange(std::span<const Piece> sends, std::span<const Piece> receives) override {
    if (sends[0].bytes == 0 || sends[0].data == receives[0].data) return;
    std::memcpy(receives[0].data, sends[0].data, static_cast<size_t>(sends[0].bytes));
  }
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }
};

thread_local Communicator* current = nullptr;

// Everyone's pieces of these sizes, one after the other.
std::vector<std::byte> gather(Communicator& communicator, std::span<const std::byte> own,
                              std::span<const int64_t> sizes) {
  using Piece = Communicator::Piece;
  int64_t total = 0;
  for (int64_t size : sizes) total += size;
  std::vector<std::byte> all(static_cast<size_t>(total));
  auto* data = const_cast<std::byte*>(own.data());  // it is only read
  std::vector<Piece> sends(sizes.size(), Piece{data, std::ssize(own)}), receives;
  std::byte* next = all.data();
  for (int64_t size : sizes) {
    receives.push_back({next, size});
    next += size;
  }
  communicator.exchange(sends, receives);
  return all;
}

template <class T>
std::vector<T> gather_equal(Communicator& communicator, std::span<const T> own) {
  std::vector<int64_t> sizes(static_cast<size_t>(communicator.size()),
                             static_cast<int64_t>(own.size_bytes()));
  std::vector<std::byte> bytes = gather(communicator, std::as_bytes(own), sizes);
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

}  // namespace

Communicator& ranks() {
  static Alone alone;
  return current ? *current : alone;
}

UseRanks::UseRanks(Communicator& communicator) : before_(current) { current = &communicator; }
UseRanks::~UseRanks() { current = before_; }

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own) {
  auto length = static_cast<int64_t>(own.size());
  std::vector<int64_t> sizes = gather_equal<int64_t>(communicator, std::span(&length, 1));
  std::vector<std::byte> all = gather(communicator, std::as_bytes(std::span(own)), sizes);
  std::vector<std::string> texts;
  size_t next = 0;
  for (int64_t size : sizes) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data()) + next, static_cast<size_t>(size));
    next += static_cast<size_t>(size);
  }
  return texts;
}

std::string broadcast_text(Communicator& communicator, const std::string& own, int root) {
  std::string sent = communicator.rank() == root ? own : "";
  return gather_texts(communicator, sent)[static_cast<size_t>(root)];
}

std::vector<double> gather_numbers(Communicator& communicator, double own) {
  return gather_equal<double>(communicator, std::span(&own, 1));
}

std::vector<double> sum_over_ranks(Communicator& communicator, const std::vector<double>& own) {
  std::vector<double> all = gather_equal<double>(communicator, own), sums(own.size(), 0.0);
  for (size_t i = 0; i < all.size(); ++i) sums[i % own.size()] += all[i];
  return sums;
}

bool any_rank(Communicator& communicator, bool own) {
  return sum_over_ranks(communicator, {own ? 1.0 : 0.0}).front() > 0;
}

void barrier(Communicator& communicator) { any_rank(communicator, false); }

void together(Communicator& communicator, const std::function<void()>& body) {
  if (communicator.size() == 1) return body();
  std::string failure;
  try {
    body();
  } catch (const Error& error) {
    failure = error.what();
  }
  for (const std::string& each : gather_texts(communicator, failure)) {
    if (each.empty()) continue;
    communicator.failed_together_ = true;
    throw Error("{}", each);
  }
}

int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    const char* text = std::getenv(name);
    std::optional<double> rank = text ? parse_number(text) : std::nullopt;
    if (rank) return static_cast<int>(*rank);
  }
  return 0;
}

std::unique_ptr<Communicator> connect_ranks() {
  bool launched = false;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    launched = launched || std::getenv(name) != nullptr;
  }
  // Without a launcher MPI is not even started: one process needs none of it.
  return launched ? connect_mpi() : std::make_unique<Alone>();
}

}  // namespace sigma1
