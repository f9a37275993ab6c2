#include "sigma1/ops/linear.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {
namespace {

// What is read or written in one go when formats change: a multiple of kTile.
constexpr size_t kGrain = 16 * kTile;

const FloatFormat kBf16{8, 7, 127, Specials::ieee};

// Whether the buffer's memory can be handed to a product of bfloat16 as it is.
bool is_bf16(const Buffer& buffer) {
  return buffer.codec && buffer.codec->cast().format == kBf16 && buffer.codec->cast().scale == 1;
}

// Whether every number of the buffer is a bfloat16, and none of them subnormal there.
bool fits_bf16(const Buffer& buffer) {
  if (is_bf16(buffer)) return true;
  if (buffer.codec == nullptr || buffer.codec->cast().scale != 1) return false;
  const FloatFormat& format = buffer.codec->cast().format;
  return format.mantissa_bits <= kBf16.mantissa_bits &&
         format.min_subnormal() >= kBf16.min_normal() && format.max() <= kBf16.max();
}

// `count` products of equal shape, each so many elements after the one before.
struct Batch {
  Gemm product;
  int64_t count = 1, step_a = 0, step_b = 0, step_c = 0;
};

// How a launch is computed: what is multiplied, in which numbers, and where in the workspace the
// operands lie that cannot be read or written where they are.
struct Plan {
  static constexpr int64_t kInPlace = -1;

  Batch batch;
  bool bf16 = false;
  int64_t left = kInPlace, right = kInPlace, result = kInPlace;
  int64_t bytes = 0;

  int64_t take(bool needed, int64_t size) {
    if (!needed) return kInPlace;
    int64_t offset = bytes;
    bytes += (size + 63) / 64 * 64;
    return offset;
  }
};

Plan make_plan(const Launch& launch, const Batch& batch) {
  const Buffer &x = launch.in(0), &w = launch.in(1), &y = launch.out();
  Plan plan;
  plan.batch = batch;
  plan.bf16 = has_bf16_gemm() && fits_bf16(x) && fits_bf16(w);
  auto take_operand = [&](const Buffer& buffer) {
    bool in_place = plan.bf16 ? is_bf16(buffer) : buffer.is_fp32();
    return plan.take(!in_place, buffer.count() * (plan.bf16 ? 2 : 4));
  };
  plan.left = take_operand(x);
  plan.right = take_operand(w);
  plan.result = plan.take(!y.is_fp32(), y.count() * 4);
  return plan;
}

Batch matmul_batch(const Launch& launch) {
  const Shape &x = launch.in(0).shape, &w = launch.in(1).shape, &y = launch.out().shape;
  bool left = launch.attr<bool>("transpose_left"), right = launch.attr<bool>("transpose_right");
  bool shared = w.size() == 2;
  int64_t n = y.back(), m = y[y.size() - 2], k = x[x.size() - (left ? 2 : 1)];
  int64_t count = std::accumulate(x.begin(), x.end() - 2, int64_t{1}, std::multiplies<>());
  // One W and rows that follow each other: a single tall product.
  if (shared && !left) return {Gemm::packed(count * m, n, k, left, right)};
  return {Gemm::packed(m, n, k, left, right), count, m * k, shared ? 0 : k * n, m * n};
}

Batch linear_batch(const Launch& launch) {
  const Shape& w = launch.in(1).shape;
  int64_t rows = element_count(launch.in(0).shape) / std::max<int64_t>(w[0], 1);
  return {Gemm::packed(rows, w[1], w[0])};
}

// body(first, count) for every tile.
template <class Body>
void for_tiles(int64_t size, const Body& body) {
  parallel_for(static_cast<size_t>(size), kGrain, [&](size_t begin, size_t end) {
    for (auto at = static_cast<int64_t>(begin); at < static_cast<int64_t>(end); at += kTile) {
      body(at, std::min(kTile, static_cast<int64_t>(end) - at));
    }
  });
}

// Numbers without their run-time scale: that goes into the product's factor.
const float* as_fp32(const Buffer& buffer, float* room) {
  if (room == nullptr) return buffer.floats();
  for_tiles(buffer.count(), [&](int64_t first, int64_t count) {
    buffer.codec->decode(buffer.data + first * buffer.codec->bytes(), room + first, count);
  });
  return room;
}

// Of each code of 8 bits.
std::array<uint16_t, 256> bf16_table(const Codec& codec) {
  std::array<std::byte, 256> codes{};
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  std::array<float, 256> numbers{};
  codec.decode(codes.data(), numbers.data(), std::ssize(numbers));
  std::array<uint16_t, 256> table{};
  vectors().truncate_to_bf16(numbers.data(), table.data(), std::ssize(table));
  return table;
}

const uint16_t* as_bf16(const Buffer& buffer, uint16_t* room) {
  if (room == nullptr) return reinterpret_cast<const uint16_t*>(buffer.data);
  if (buffer.codec->bytes() == 1) {
    const auto table = bf16_table(*buffer.codec);
    const auto* codes = reinterpret_cast<const uint8_t*>(buffer.data);
    for_tiles(buffer.count(), [&](int64_t first, int64_t count) {
      vectors().look_up(codes + first, table.data(), room + first, count);
    });
    return room;
  }
  for_tiles(buffer.count(), [&](int64_t first, int64_t count) {
    float tile[kTile];
    buffer.codec->decode(buffer.data + first * buffer.codec->bytes(), tile, count);
    vectors().truncate_to_bf16(tile, room + first, count);
  });
  return room;
}

template <class T>
void multiply(const Batch& batch, const T* a, const T* b, float* c) {
  auto one = [&](int64_t i) {
    gemm(batch.product, a + i * batch.step_a, b + i * batch.step_b, c + i * batch.step_c);
  };
  // Many small products are spread over the threads, few large ones are cut up themselves.
  if (batch.count >= thread_count()) {
    parallel_for(static_cast<size_t>(batch.count), 1,
                 [&](size_t i, size_t) { one(static_cast<int64_t>(i)); });
  } else {
    for (int64_t i = 0; i < batch.count; ++i) one(i);
  }
}

// y += factor·bias for elements [first, first + count) of rows as long as the bias.
void add_bias(const float* bias, int64_t n, float factor, float* y, int64_t first, int64_t count) {
  for (int64_t done = 0; done < count;) {
    int64_t column = (first + done) % n, length = std::min(n - column, count - done);
    vectors().add_scaled(bias + column, y + done, length, factor);
    done += length;
  }
}

float run_time_scale(const Buffer& buffer) { return buffer.scale ? *buffer.scale : 1; }

void run_plan(Plan plan, const Launch& launch, const float* bias) {
  const Buffer &x = launch.in(0), &w = launch.in(1), &y = launch.out();
  auto at = [&](int64_t offset) {
    return offset == Plan::kInPlace ? nullptr : launch.workspace.data() + offset;
  };
  auto floats = [&](int64_t offset) { return reinterpret_cast<float*>(at(offset)); };
  auto halves = [&](int64_t offset) { return reinterpret_cast<uint16_t*>(at(offset)); };
  float* result = plan.result == Plan::kInPlace ? y.floats() : floats(plan.result);
  plan.batch.product.alpha = launch.factor() * run_time_scale(x) * run_time_scale(w);
  if (plan.bf16) {
    multiply(plan.batch, as_bf16(x, halves(plan.left)), as_bf16(w, halves(plan.right)), result);
  } else {
    multiply(plan.batch, as_fp32(x, floats(plan.left)), as_fp32(w, floats(plan.right)), result);
  }
  if (bias == nullptr && plan.result == Plan::kInPlace) return;
  int64_t n = plan.batch.product.n;
  for_tiles(y.count(), [&](int64_t first, int64_t count) {
    if (bias) add_bias(bias, n, launch.factor(), result + first, first, count);
    store(y, first, count, result + first, launch.random[0]);
  });
}

void run_matmul(const Launch& launch) {
  run_plan(make_plan(launch, matmul_batch(launch)), launch, nullptr);
}

int64_t matmul_workspace(const Launch& launch) {
  return make_plan(launch, matmul_batch(launch)).bytes;
}

// The bias in fp32 lies behind what the product needs.
struct LinearPlan {
  explicit LinearPlan(const Launch& launch) : product(make_plan(launch, linear_batch(launch))) {
    const Buffer& c = launch.in(2);
    bias = product.take(!c.is_fp32(), c.count() * 4);
  }
  Plan product;
  int64_t bias;
};

void run_linear(const Launch& launch) {
  LinearPlan plan(launch);
  const Buffer& c = launch.in(2);
  auto* room = reinterpret_cast<float*>(launch.workspace.data() + std::max<int64_t>(plan.bias, 0));
  run_plan(plan.product, launch, load(c, 0, c.count(), room));
}

int64_t linear_workspace(const Launch& launch) { return LinearPlan(launch).product.bytes; }

constexpr Kernel kKernels[] = {
    {&matmul_op, run_matmul, matmul_workspace},
    {&linear_op, run_linear, linear_workspace},
};

}  // namespace

std::span<const Kernel> linear_kernels() { return kKernels; }

}  // namespace sigma1::cpu
