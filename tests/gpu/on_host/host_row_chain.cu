#include "tests/gpu/on_host/host_row_chain.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "sigma1/backend/cuda/row_code.cuh"
#include "sigma1/base/error.h"
#include "tests/gpu/on_host/host_matrix.h"
#include "tests/gpu/on_host/host_source.h"

namespace sigma1 {
namespace {

using cuda::RowCode, cuda::RowMatrices, cuda::RowPlan, cuda::RowStep, cuda::Type;

constexpr const char* kEntry = R"(
extern "C" void run_on_host(const RowCode* code, const RowMatrices* matrices, int blocks,
                            int bytes) {
  host_gpu::run([&] { kernel(*code, *matrices); }, blocks, kRowChainThreads, 1, bytes);
}
)";

// Reads what a plan has become, and puts memory of zeros wherever it points.
constexpr const char* kProgram = R"(
#include <deque>
#include <fstream>
std::deque<std::vector<std::byte>> zeros;
template <class Pointer>
void put_zeros(Pointer& to) {
  if (to != nullptr) to = zeros.emplace_back(1 << 22).data();
}
int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  auto read = [&](void* to, size_t bytes) { file.read(static_cast<char*>(to), bytes); };
  RowCode code;
  RowMatrices matrices;
  int bytes;
  read(&code, sizeof(code));
  read(&matrices, sizeof(matrices));
  read(&bytes, sizeof(bytes));
  std::vector<uint4> room(code.code_bytes / 16);
  read(room.data(), code.code_bytes);
  auto* steps = reinterpret_cast<RowStep*>(room.data());
  auto* instructions = reinterpret_cast<RowInstruction*>(steps + code.steps);
  auto* copies = reinterpret_cast<RowCopy*>(instructions + code.instructions);
  for (int i = 0; i < code.steps; ++i) put_zeros(steps[i].out.memory);
  for (int i = 0; i < code.instructions; ++i) put_zeros(instructions[i].out.memory);
  for (int i = 0; i < code.copies; ++i) put_zeros(copies[i].from);
  for (int i = 0; i < matrices.count; ++i) {
    HostMatrix matrix;
    std::memcpy(&matrix, &matrices.maps[i], sizeof(matrix));
    put_zeros(matrix.numbers);
    std::memcpy(&matrices.maps[i], &matrix, sizeof(matrix));
  }
  code.code = room.data();
  host_gpu::run([&] { kernel(code, matrices); }, 1, kRowChainThreads, 1, bytes);
}
)";

CUtensorMap map_of(const RowStep& product) {
  HostMatrix matrix{product.matrix, product.out.width, product.depth};
  if (product.transposed) std::swap(matrix.width, matrix.height);
  CUtensorMap map{};
  std::memcpy(&map, &matrix, sizeof(matrix));
  return map;
}

std::string source_for(const RowPlan& plan, const char* entry) {
  const char* type = plan.type == Type::fp16 ? "fp16" : plan.type == Type::bf16 ? "bf16" : "fp32";
  return fmt::format(R"(#include "sigma1/backend/cuda/row_kernel.cuh"
using namespace sigma1::cuda;
constexpr auto kernel = row_chain_kernel<{}, Type::{}>;
{})",
                     plan.rows_of_block, type, entry);
}

RowPlan plan_of(std::span<const ChainStep> steps, int rows_of_block) {
  std::optional<RowPlan> plan = cuda::plan_rows(steps, rows_of_block);
  if (!plan) throw Bug("a row chain of {} steps does not fit", steps.size());
  return *std::move(plan);
}

// One for each kernel, which all chains share.
const HostLibrary& library_for(const RowPlan& plan) {
  static std::map<std::pair<int, Type>, std::unique_ptr<HostLibrary>> known;
  auto& library = known[{plan.rows_of_block, plan.type}];
  if (!library) library = std::make_unique<HostLibrary>(source_for(plan, kEntry));
  return *library;
}

}  // namespace

struct HostRowChain::Ready {
  RowPlan plan;
  std::vector<std::byte> code;
  RowMatrices matrices;
};

HostRowChain::HostRowChain(std::span<const ChainStep> steps, int rows_of_block) {
  RowPlan plan = plan_of(steps, rows_of_block);
  ready_ = std::make_unique<Ready>(
      Ready{plan, cuda::code_bytes_of(plan), cuda::matrices_of(plan, map_of)});
}

HostRowChain::~HostRowChain() = default;

void HostRowChain::run(uint64_t) {
  auto run = library_for(ready_->plan)
                 .function<void(const RowCode*, const RowMatrices*, int, int)>("run_on_host");
  RowCode code = cuda::code_of(ready_->plan, ready_->code.data());
  run(&code, &ready_->matrices, static_cast<int>(ready_->plan.blocks()),
      ready_->plan.shared_bytes());
}

std::string races_of(std::span<const ChainStep> steps, int rows_of_block, bool waits) {
  RowPlan plan = plan_of(steps, rows_of_block);
  for (RowStep& each : plan.steps) each.waits = each.waits && waits;
  plan.rows = rows_of_block;
  std::vector<std::byte> file;
  auto append = [&](const void* from, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    file.insert(file.end(), begin, begin + bytes);
  };
  RowCode code = cuda::code_of(plan, nullptr);
  RowMatrices matrices = cuda::matrices_of(plan, map_of);
  int bytes = plan.shared_bytes();
  append(&code, sizeof(code));
  append(&matrices, sizeof(matrices));
  append(&bytes, sizeof(bytes));
  std::vector<std::byte> bytes_of_code = cuda::code_bytes_of(plan);
  append(bytes_of_code.data(), bytes_of_code.size());
  return races_of_program(source_for(plan, kProgram), file);
}

}  // namespace sigma1
