#include "sigma1/backend/cuda/gemm.cuh"

#include <vector>

#include "sigma1/backend/cuda/gemm_library.cuh"
#include "sigma1/backend/cuda/linear_tensor.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

int64_t bytes_of(Type type) { return type == Type::fp32 ? 4 : 2; }

bool is_8_bit(Type type) { return type == Type::e4m3 || type == Type::e5m2; }

// Both operands become this. Every number of 8 bits is one of fp16 and of bf16.
Type operand_type(Type a, Type b) {
  for (Type type : {Type::fp16, Type::bf16}) {
    auto fits = [&](Type each) { return each == type || is_8_bit(each); };
    if (fits(a) && fits(b)) return type;
  }
  return Type::fp32;
}

// With factors of 8 bits in the orientation that the library takes, where they are of such shapes
// and kept so; else as it is.
Gemm faced(const Gemm& p) {
  constexpr int64_t kGranule = 16;
  bool granules = p.m % kGranule == 0 && p.n % kGranule == 0 && p.k % kGranule == 0;
  bool packed = p.lda == (p.transpose_a ? p.m : p.k) && p.ldb == (p.transpose_b ? p.k : p.n);
  bool both_wide = p.a.type == Type::e5m2 && p.b.type == Type::e5m2;
  bool can_turn = (!p.transpose_a || p.turned_a) && (p.transpose_b || p.turned_b);
  if (!is_8_bit(p.a.type) || !is_8_bit(p.b.type) || both_wide) return p;
  if (!granules || !packed || !can_turn || p.count != 1 || p.k == 0) return p;
  Gemm result = p;
  result.is_faced = true;
  if (p.transpose_a) result.a.data = const_cast<void*>(p.turned_a);
  if (!p.transpose_b) result.b.data = const_cast<void*>(p.turned_b);
  result.transpose_a = false;
  result.transpose_b = true;
  result.lda = result.ldb = p.k;
  return result;
}

// Elements from the first to behind the last of `count` matrices of `rows` rows.
int64_t extent(int64_t count, int64_t step, int64_t rows, int64_t row_step, int64_t columns) {
  return (count - 1) * step + (rows - 1) * row_step + columns;
}

// What is multiplied, in which types, and where in the workspace lies what cannot be read or
// written where it is.
struct Plan {
  static constexpr int64_t kInPlace = -1;

  library::Product product{};
  const library::Recipe* recipe = nullptr;
  bool is_direct = true;           // the library writes C itself
  int64_t size_a = 0, size_b = 0;  // elements
  int64_t a = kInPlace, b = kInPlace, bias = kInPlace, result = kInPlace;
  int64_t alpha = 0, library = 0;
  int64_t bytes = 0;

  int64_t take(int64_t size) {
    int64_t offset = bytes;
    bytes += (size + 63) / 64 * 64;
    return offset;
  }
};

bool is_empty(const Gemm& p) { return p.m == 0 || p.n == 0 || p.count == 0; }

struct Operands {
  Type a, b;
};

// Whether the library can write C itself: it does not saturate, and it would round a bias of 16
// bits before adding it, which beside factors of 8 bits, or long sums, is little.
bool writes_directly(const Gemm& p, Operands operands) {
  bool is_8 = is_8_bit(operands.a), is_16 = p.c.type == Type::fp16 || p.c.type == Type::bf16;
  if (p.c.type == Type::fp32) return !is_8 || !p.bias;
  if (is_8) return is_16 && !p.c.saturates;
  return p.c.type == operands.a && !p.c.saturates && (!p.bias || is_large(p));
}

bool sums_fast(const Gemm& p) {
  using Sums = ProductChoices::Sums;
  constexpr int64_t kLongest = 4096;  // lose little in the fast way
  return p.choices.sums == Sums::fast || (p.choices.sums == Sums::by_length && p.k <= kLongest);
}

library::Product product_in(const Gemm& p, Operands operands, bool direct) {
  bool scaled = (p.a.type != Type::fp32 && p.a.scale) || (p.b.type != Type::fp32 && p.b.scale);
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .lda = p.lda,
          .ldb = p.ldb,
          .ldc = direct ? p.ldc : p.n,
          .count = p.count,
          .step_a = p.step_a,
          .step_b = p.step_b,
          .step_c = direct ? p.step_c : p.m * p.n,
          .a = operands.a,
          .b = operands.b,
          .result = direct ? p.c.type : Type::fp32,
          .alpha_on_device = scaled,
          .has_bias = direct && p.bias.has_value(),
          .tf32 = p.choices.tf32 && operands.a == Type::fp32,
          .fast_sums = is_8_bit(operands.a) && sums_fast(p)};
}

void choose_recipe(const Gemm& p, Plan& plan) {
  Type common = operand_type(p.a.type, p.b.type);
  std::vector<Operands> ways{{common, common}, {Type::fp32, Type::fp32}};
  if (p.is_faced) ways.insert(ways.begin(), {p.a.type, p.b.type});
  for (Operands operands : ways) {
    for (bool direct : {true, false}) {
      if (direct && !writes_directly(p, operands)) continue;
      plan.is_direct = direct;
      plan.product = product_in(p, operands, direct);
      plan.recipe = library::find_recipe(plan.product);
      if (plan.recipe) return;
    }
  }
  throw Bug("gemm: cublasLt multiplies no [{}, {}] by [{}, {}]", p.m, p.k, p.k, p.n);
}

Plan make_plan(const Gemm& p) {
  Plan plan;
  if (is_empty(p) || p.k == 0 || takes_bias(p)) return plan;
  choose_recipe(p, plan);
  plan.size_a =
      extent(p.count, p.step_a, p.transpose_a ? p.k : p.m, p.lda, p.transpose_a ? p.m : p.k);
  plan.size_b =
      extent(p.count, p.step_b, p.transpose_b ? p.n : p.k, p.ldb, p.transpose_b ? p.k : p.n);
  const library::Product& as = plan.product;
  if (p.a.type != as.a) plan.a = plan.take(plan.size_a * bytes_of(as.a));
  if (p.b.type != as.b) plan.b = plan.take(plan.size_b * bytes_of(as.b));
  if (!plan.is_direct) plan.result = plan.take(p.count * p.m * p.n * 4);
  if (plan.product.has_bias) plan.bias = plan.take(p.n * bytes_of(plan.product.result));
  plan.alpha = plan.take(2 * sizeof(float));
  plan.library = plan.take(static_cast<int64_t>(plan.recipe->algorithm.workspace) +
                           library::kWorkspaceAlignment);
  return plan;
}

__global__ void convert(View from, View to, int64_t count) {
  int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    store(to, i, load(from, i));
  }
}

// The operand as the library takes it, without its scale.
const void* as_operand(const View& view, Type type, int64_t size, std::byte* room,
                       cudaStream_t stream) {
  if (room == nullptr) return view.data;
  View from = view, to{room, type, false, nullptr, size};
  from.scale = nullptr;
  convert<<<blocks_for(size), kThreads, 0, stream>>>(from, to, size);
  check(cudaGetLastError(), "gemm: convert");
  return room;
}

__global__ void scale_bias(View from, View to, float alpha) {
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < from.count) store(to, i, alpha * load(from, i));
}

// As the library adds it: in the result's type, and after alpha.
const void* as_bias(const Gemm& p, Type type, std::byte* room, cudaStream_t stream) {
  if (room == nullptr) return nullptr;
  View to{room, type, false, nullptr, p.n};
  auto blocks = static_cast<unsigned>((p.n + kThreads - 1) / kThreads);
  scale_bias<<<blocks, kThreads, 0, stream>>>(*p.bias, to, p.alpha);
  check(cudaGetLastError(), "gemm: bias");
  return room;
}

__global__ void multiply_scales(float alpha, const float* a, const float* b, float* to) {
  to[0] = alpha * (a ? *a : 1) * (b ? *b : 1);
  to[1] = 0;  // beta
}

// C = result + alpha · bias. Without a result it is zero; it may be C's own memory.
struct Finish {
  const float* result;
  int64_t row_step, step;  // of the result
  View bias;               // none where its data is null
  View c;
  int64_t ldc, step_c;
  int64_t m, n, size;
  float alpha;
};

// Index: 32 bits where they suffice, because divisions of 64 take longer than the rest.
template <class Index>
__global__ void finish(Finish f) {
  const Index stride = Index{blockDim.x} * gridDim.x;
  const auto m = static_cast<Index>(f.m), n = static_cast<Index>(f.n);
  for (Index at = Index{blockIdx.x} * blockDim.x + threadIdx.x; at < f.size; at += stride) {
    int64_t column = at % n, row = at / n % m, each = at / n / m;
    float value = f.result ? f.result[each * f.step + row * f.row_step + column] : 0;
    if (f.bias.data) value += f.alpha * load(f.bias, column);
    store(f.c, each * f.step_c + row * f.ldc + column, value);
  }
}

void finish_product(const Gemm& p, const library::Product& product, const float* result,
                    cudaStream_t stream) {
  Finish f{.result = result,
           .row_step = product.ldc,
           .step = product.step_c,
           .bias = p.bias.value_or(View{}),
           .c = p.c,
           .ldc = p.ldc,
           .step_c = p.step_c,
           .m = p.m,
           .n = p.n,
           .size = p.count * p.m * p.n,
           .alpha = p.alpha};
  bool is_small = f.size < int64_t{1} << 31;
  auto kernel = is_small ? finish<uint32_t> : finish<uint64_t>;
  kernel<<<blocks_for(f.size), kThreads, 0, stream>>>(f);
  check(cudaGetLastError(), "gemm: finish");
}

void check_alignment(const Gemm& p) {
  for (const View* view : {&p.a, &p.b, &p.c}) {
    if (reinterpret_cast<uintptr_t>(view->data) % 16 != 0)
      throw Bug("gemm: expected matrices on multiples of 16 bytes");
  }
}

// Where the library may work, in the room taken for it.
void* aligned(std::byte* room) {
  constexpr uintptr_t kMask = library::kWorkspaceAlignment - 1;
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(room) + kMask) & ~kMask);
}

}  // namespace

Gemm Gemm::packed(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                  int64_t count) {
  return {.m = m,
          .n = n,
          .k = k,
          .transpose_a = transpose_a,
          .transpose_b = transpose_b,
          .lda = transpose_a ? m : k,
          .ldb = transpose_b ? k : n,
          .ldc = n,
          .count = count,
          .step_a = m * k,
          .step_b = k * n,
          .step_c = m * n};
}

int64_t gemm_workspace(const Gemm& product) { return make_plan(faced(product)).bytes; }

double gemm_microseconds(const Gemm& product) {
  const library::Recipe* recipe = make_plan(faced(product)).recipe;
  return recipe ? recipe->algorithm.microseconds : 0;
}

void gemm(const Gemm& product, cudaStream_t stream, std::span<std::byte> workspace) {
  if (is_empty(product)) return;
  const Gemm p = faced(product);
  Plan plan = make_plan(p);
  if (p.k == 0) return finish_product(p, plan.product, nullptr, stream);
  check_alignment(p);
  if (takes_bias(p)) return multiply_with_bias(p, stream);
  if (static_cast<int64_t>(workspace.size()) < plan.bytes) {
    throw Bug("gemm: expected {} bytes of workspace, got {}", plan.bytes, workspace.size());
  }
  auto at = [&](int64_t offset) {
    return offset == Plan::kInPlace ? nullptr : workspace.data() + offset;
  };
  const void* a = as_operand(p.a, plan.product.a, plan.size_a, at(plan.a), stream);
  const void* b = as_operand(p.b, plan.product.b, plan.size_b, at(plan.b), stream);
  void* result = plan.result == Plan::kInPlace ? p.c.data : at(plan.result);
  const float* alpha = &p.alpha;
  if (plan.product.alpha_on_device) {
    auto* scaled = reinterpret_cast<float*>(at(plan.alpha));
    multiply_scales<<<1, 1, 0, stream>>>(p.alpha, p.a.scale, p.b.scale, scaled);
    check(cudaGetLastError(), "gemm: scales");
    alpha = scaled;
  }
  const void* bias = as_bias(p, plan.product.result, at(plan.bias), stream);
  library::multiply(*plan.recipe, alpha, a, b, bias, result, aligned(at(plan.library)), stream);
  if (plan.result != Plan::kInPlace) {
    finish_product(p, plan.product, static_cast<const float*>(result), stream);
  }
}

}  // namespace sigma1::cuda
