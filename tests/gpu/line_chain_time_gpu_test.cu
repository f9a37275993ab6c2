// How long line chains take at the sizes of large models, and how many bytes pass meanwhile;
// nothing is asserted about it.
#include <gtest/gtest.h>

#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "tests/gpu/line_chain_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

int64_t byte_count(const Buffer& buffer) {
  return buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
}

int64_t bytes_moved(const RowChainCase::Prepared& prepared) {
  int64_t bytes = 0;
  for (const ChainStep& each : prepared.steps) {
    const Buffer& out = each.launch.out();
    if (out.count() < each.launch.in(0).count()) continue;  // a sum over rows that are there
    if (out.data) bytes += byte_count(out);
    if (out.turned) bytes += byte_count(out);
    for (size_t i = 0; i < each.producer.size(); ++i) {
      if (each.producer[i] < 0) bytes += byte_count(each.launch.in(i));
    }
  }
  return bytes;
}

double time_of(const std::vector<ChainStep>& steps) {
  cuda::LineChain lines(steps);
  Memory workspace(cuda_device(), lines.workspace());
  lines.set_workspace(workspace.data());
  return microseconds_of(20, [&] { lines.run(0); });
}

// As a model has it: a sum is kept, a gradient of a norm, or what is cast, only where nobody else
// reads it.
void print_time(const LineChainKind& kind, const LineChainSizes& sizes) {
  RowChainCase chain = kind.make(cuda_device(), sizes);
  size_t steps = chain.step_count();
  std::vector<bool> stored(steps), turned(steps);
  for (size_t s = 0; s < steps; ++s) {
    bool is_sum = chain.step_name(s).find("weighted_add") != std::string::npos;
    stored[s] = is_sum || !chain.is_used(s);
    turned[s] = is_turned(chain, s);
  }
  auto prepared = chain.prepare(stored, turned);
  double time = time_of(prepared->steps);
  double bytes = static_cast<double>(bytes_moved(*prepared));
  std::printf("%5ld x %4ld %s%-15s %7.1f us, %5.0f GB/s, floor at 4.2 TB/s %6.1f us\n",
              static_cast<long>(sizes.rows), static_cast<long>(sizes.width),
              sizes.casts ? "8-bit " : "      ", kind.name, time, bytes / time / 1e3,
              bytes / 4.2e6);
}

// With sums over all rows and without, when a sum before the norm is kept for them. What is cast is
// kept: others read it too.
void print_sums_time(const LineChainKind& kind, LineChainSizes sizes) {
  for (bool sums : {false, true}) {
    sizes.weight_sums = sizes.column_sum = sums;
    RowChainCase chain = kind.make(cuda_device(), sizes);
    size_t steps = chain.step_count(), cast = 0;
    std::vector<bool> stored(steps), turned(steps);
    for (size_t s = 0; s < steps; ++s) {
      bool adds = chain.step_name(s).find("weighted_add") != std::string::npos;
      turned[s] = is_turned(chain, s);
      stored[s] = !chain.is_used(s) || (adds && !sums);
      if (turned[s]) cast = s;
    }
    stored[cast - 1] = true;
    auto prepared = chain.prepare(stored, turned);
    double time = time_of(prepared->steps), bytes = static_cast<double>(bytes_moved(*prepared));
    std::printf("%5ld x %4ld 8-bit %-15s %s %7.1f us, %5.0f GB/s\n", static_cast<long>(sizes.rows),
                static_cast<long>(sizes.width), kind.name, sums ? "with sums   " : "without sums",
                time, bytes / time / 1e3);
  }
}

TEST(CudaLineChainTime, OfSumsIsPrinted) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (int64_t width : {768, 1024, 1600}) {
    for (LineChainKind kind : summed_line_chain_kinds()) {
      print_sums_time(kind, {.rows = 32768, .width = width, .casts = true, .blank = true});
    }
  }
}

TEST(CudaLineChainTime, IsPrinted) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (int64_t width : {768, 1024, 1280, 1600}) {
    for (bool casts : {false, true}) {
      for (LineChainKind kind : line_chain_kinds()) {
        print_time(kind, {.rows = 32768, .width = width, .casts = casts, .blank = true});
      }
    }
  }
}

}  // namespace
}  // namespace sigma1
