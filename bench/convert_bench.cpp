// Array conversions as a share of the machine's copy bandwidth. Each iteration times a copy of as
// many bytes as the conversion moves right beside it, so that the share holds whatever else the
// machine does.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "sigma1/base/parallel.h"
#include "sigma1/numerics/convert.h"

namespace sigma1 {
namespace {

constexpr size_t kElements = size_t{1} << 26;  // 256 MiB of fp32: no cache holds it
constexpr size_t kCopyGrain = size_t{1} << 18;

template <class Work>
double seconds(Work work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void copy_past_caches(char* to, const char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
}

// Reads half of `bytes` and writes the other half on all threads, by the better of two ways: the C
// library's, and one that does not read what it overwrites.
double copy_seconds(size_t bytes) {
  static std::vector<char> from(kElements * sizeof(float), 1), to(from.size(), 2);
  auto copy_by = [&](auto copy) {
    return seconds([&] {
      parallel_for(bytes / 2, kCopyGrain, [&](size_t begin, size_t end) {
        copy(to.data() + begin, from.data() + begin, end - begin);
      });
    });
  };
  return std::min(copy_by(std::memcpy), copy_by(copy_past_caches));
}

template <class Work>
void run(benchmark::State& state, size_t bytes, Work work) {
  work();
  copy_seconds(bytes);
  std::vector<double> own, copy;
  for (auto _ : state) {
    own.push_back(seconds(work));
    copy.push_back(copy_seconds(bytes));
    state.SetIterationTime(own.back());
  }
  auto median = [](std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
    return times[times.size() / 2];
  };
  double moved = static_cast<double>(bytes), own_time = median(own), copy_time = median(copy);
  state.counters["GB/s"] = moved / own_time * 1e-9;
  state.counters["copy_GB/s"] = moved / copy_time * 1e-9;
  state.counters["share_of_copy"] = copy_time / own_time;
}

std::vector<float> normal_values() {
  std::vector<float> values(kElements);
  RandomStream random(1, "bench");
  parallel_for(kElements, 1 << 16, [&](size_t begin, size_t end) {
    // Sums of uniform words: near enough to normal, and quicker to make.
    for (size_t i = begin; i < end; ++i) {
      values[i] = static_cast<float>(static_cast<int32_t>(random.bits(i))) * 0x1p-30f;
    }
  });
  return values;
}

const std::vector<float>& shared_values() {
  static const std::vector<float> values = normal_values();
  return values;
}

template <class Code>
void encode_to(benchmark::State& state, const char* format, Rounding rounding) {
  const std::vector<float>& values = shared_values();
  std::vector<Code> codes(kElements);
  Cast cast{find_format(format).format, rounding};
  run(state, kElements * (sizeof(float) + sizeof(Code)), [&] { encode(values, codes, cast); });
}

template <class Code>
void decode_from(benchmark::State& state, const char* format) {
  Cast cast{find_format(format).format};
  std::vector<Code> codes(kElements);
  encode(shared_values(), codes, cast);
  std::vector<float> values(kElements);
  run(state, kElements * (sizeof(float) + sizeof(Code)),
      [&] { decode(std::span<const Code>(codes), values, cast); });
}

void quantize_in_place(benchmark::State& state, const char* format) {
  std::vector<float> values = shared_values();
  Cast cast{find_format(format).format};
  run(state, 2 * kElements * sizeof(float), [&] { quantize(values, values, cast); });
}

template <class... Args>
void add(const char* name, Args... args) {
  benchmark::RegisterBenchmark(name, args...)->UseManualTime()->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace sigma1

int main(int argc, char** argv) {
  using namespace sigma1;
  add("fp32->fp16", encode_to<uint16_t>, "fp16", Rounding::nearest_even);
  add("fp16->fp32", decode_from<uint16_t>, "fp16");
  add("fp32->bf16", encode_to<uint16_t>, "bf16", Rounding::nearest_even);
  add("bf16->fp32", decode_from<uint16_t>, "bf16");
  add("fp32->fp8_e4m3", encode_to<uint8_t>, "fp8_e4m3", Rounding::nearest_even);
  add("fp32->fp8_e5m2", encode_to<uint8_t>, "fp8_e5m2", Rounding::nearest_even);
  add("fp32->fp8_e4m3 stochastic", encode_to<uint8_t>, "fp8_e4m3", Rounding::stochastic);
  add("fp8_e4m3->fp32", decode_from<uint8_t>, "fp8_e4m3");
  add("quantize fp8_e4m3", quantize_in_place, "fp8_e4m3");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
