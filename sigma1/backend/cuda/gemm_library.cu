#include "sigma1/backend/cuda/gemm_library.cuh"

#include <map>
#include <mutex>

#include "sigma1/backend/cuda/gemm_algorithms.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda::library {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Bug("cublasLt: {}: {}", what, cublasLtGetStatusString(status));
  }
}

cudaDataType_t data_type(Type type) {
  switch (type) {
    case Type::fp32:
      return CUDA_R_32F;
    case Type::fp16:
      return CUDA_R_16F;
    case Type::bf16:
      return CUDA_R_16BF;
    case Type::e4m3:
      return CUDA_R_8F_E4M3;
    case Type::e5m2:
      return CUDA_R_8F_E5M2;
    default:
      throw Bug("cublasLt: expected numbers of a floating-point format");
  }
}

// A row-major matrix is a column-major one transposed, so that Cᵀ = op(B)ᵀ · op(A)ᵀ is computed:
// B is the left operand, and what is stored transposed is still what must be transposed.
struct Matrix {
  int64_t rows, columns;  // as stored, row-major
  int64_t row_step;
  int64_t step;
};

cublasLtMatrixLayout_t make_layout(const Matrix& matrix, Type type, int64_t count) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, data_type(type), static_cast<uint64_t>(matrix.columns),
                                   static_cast<uint64_t>(matrix.rows), matrix.row_step),
        "layout");
  auto batch = static_cast<int32_t>(count);
  check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                         sizeof(batch)),
        "batch count");
  check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &matrix.step, sizeof(matrix.step)),
        "batch step");
  return layout;
}

cublasLtMatmulDesc_t make_operation(const Product& p) {
  cublasLtMatmulDesc_t operation = nullptr;
  auto compute = p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "operation");
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, int32_t value) {
    check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)), "attribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_POINTER_MODE,
      p.alpha_on_device ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST);
  if (p.has_bias) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  if (p.fast_sums) {
    int8_t fast = 1;
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
                                         sizeof(fast)),
          "fast sums");
  }
  return operation;
}

cublasLtMatmulPreference_t make_preference() {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "preference");
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
          "preference");
  };
  constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  // Parts of a sum are kept in fp32, not in the result's 16 bits.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  // Taken as 256 where nothing is said.
  for (auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, uint32_t{16});
  }
  return preference;
}

// The library's guesses, the best first.
std::vector<Algorithm> guess_algorithms(const Recipe& recipe) {
  constexpr int kMost = 12;
  static cublasLtMatmulPreference_t preference = make_preference();
  cublasLtMatmulHeuristicResult_t found[kMost] = {};
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      recipe.handle, recipe.operation, recipe.left, recipe.right, recipe.result, recipe.result,
      preference, kMost, found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "heuristic");
  std::vector<Algorithm> guesses;
  for (int i = 0; i < count; ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS) {
      guesses.push_back({found[i].algo, found[i].workspaceSize});
    }
  }
  return guesses;
}

// False where there is no algorithm.
bool find_algorithm(const Product& product, Recipe& recipe) {
  std::string key = cache_key(product);
  if (std::optional<Algorithm> known = recall_algorithm(key)) {
    recipe.algorithm = *known;
    return true;
  }
  std::vector<Algorithm> guesses = guess_algorithms(recipe);
  if (guesses.empty()) return false;
  recipe.algorithm = time_algorithms(product, recipe, guesses);
  remember_algorithm(key, recipe.algorithm);
  return true;
}

cublasLtHandle_t handle_of(int device) {
  static std::map<int, cublasLtHandle_t> handles;
  cublasLtHandle_t& handle = handles[device];
  if (handle == nullptr) check(cublasLtCreate(&handle), "handle");
  return handle;
}

struct Found {
  Recipe recipe;
  bool exists;
};

Found make_recipe(const Product& p, int device) {
  Matrix a{p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.step_a};
  Matrix b{p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.step_b};
  Matrix c{p.m, p.n, p.ldc, p.step_c};
  Recipe recipe{.handle = handle_of(device),
                .operation = make_operation(p),
                .left = make_layout(b, p.b, p.count),
                .right = make_layout(a, p.a, p.count),
                .result = make_layout(c, p.result, p.count),
                .alpha_on_device = p.alpha_on_device};
  bool exists = find_algorithm(p, recipe);
  return {recipe, exists};
}

}  // namespace

const Recipe* find_recipe(const Product& product) {
  static std::mutex mutex;
  static std::map<std::pair<int, Product>, Found> recipes;  // their addresses stay
  int device = 0;
  cuda::check(cudaGetDevice(&device), "gemm: device");
  std::lock_guard lock(mutex);
  std::pair key(device, product);
  auto place = recipes.find(key);
  if (place == recipes.end()) place = recipes.emplace(key, make_recipe(product, device)).first;
  return place->second.exists ? &place->second.recipe : nullptr;
}

void multiply(const Recipe& recipe, const float* alpha, const void* a, const void* b,
              const void* bias, void* c, void* workspace, cudaStream_t stream) {
  constexpr float kZero = 0;
  const float* beta = recipe.alpha_on_device ? alpha + 1 : &kZero;
  cublasLtMatmulDescOpaque_t operation = *recipe.operation;  // a recipe is shared by threads
  if (bias) {
    check(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                         sizeof(bias)),
          "bias");
  }
  check(cublasLtMatmul(recipe.handle, &operation, alpha, b, recipe.left, a, recipe.right, beta, c,
                       recipe.result, c, recipe.result, &recipe.algorithm.choice, workspace,
                       recipe.algorithm.workspace, stream),
        "matmul");
}

}  // namespace sigma1::cuda::library
