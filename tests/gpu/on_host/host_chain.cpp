#include "tests/gpu/on_host/host_chain.h"

#include <map>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

constexpr const char* kEntry = R"(
template <class Parameters>
void run(void (*kernel)(Parameters), const void* p, int blocks, int threads, int ranks, int bytes) {
  host_gpu::run([&] { kernel(*static_cast<const Parameters*>(p)); }, blocks, threads, ranks, bytes);
}
extern "C" void run_on_host(const void* p, int blocks, int threads, int ranks, int bytes) {
  run(cluster_chain, p, blocks, threads, ranks, bytes);
}
)";
constexpr const char* kProgram = R"(
template <int kPlaces, int kFactors>
void run_on_zeros(void (*kernel)(ClusterParameters<kPlaces, kFactors>)) {
  std::vector<std::byte> zeros(1 << 20);
  std::vector<std::vector<std::byte>> memory(kPlaces, zeros);
  ClusterParameters<kPlaces, kFactors> p{};
  for (int i = 0; i < kPlaces; ++i) p.memory[i] = memory[i].data();
  p.rows = Block::kRows;
  host_gpu::run([&] { kernel(p); }, Block::kRanks, Block::kThreads, Block::kRanks, 227 * 1024);
}
int main() { run_on_zeros(cluster_chain); }
)";

cuda::ClusterSource source_of(std::span<const ChainStep> steps, const cuda::ClusterShape& shape) {
  std::optional<cuda::ClusterSource> source = cuda::cluster_source(steps, shape);
  if (!source) throw Bug("a chain of {} steps does not fit a cluster", steps.size());
  return *std::move(source);
}

// One for each source, which chains share.
const HostLibrary& library_for(const std::string& source) {
  static std::map<std::string, std::unique_ptr<HostLibrary>> known;
  auto& library = known[source];
  if (!library) library = std::make_unique<HostLibrary>(source + kEntry);
  return *library;
}

int64_t rows_of(const Buffer& out) { return out.count() / out.shape.back(); }

}  // namespace

HostChain::HostChain(std::span<const ChainStep> steps, const cuda::ClusterShape& shape)
    : shape_(shape),
      rows_(rows_of(steps.front().launch.out())),
      source_(source_of(steps, shape)),
      library_(library_for(source_.text)) {}

void HostChain::run(uint64_t) {
  auto run = library_.function<void(const void*, int, int, int, int)>("run_on_host");
  run(source_.parameters(rows_).data(), static_cast<int>(shape_.blocks(rows_)), shape_.threads(),
      shape_.ranks, source_.shared_bytes);
}

std::string races_of(const std::string& source) { return races_of_program(source + kProgram); }

}  // namespace sigma1
