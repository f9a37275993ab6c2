#include "sigma1/backend/cuda/compile.cuh"

#include <fmt/format.h>
#include <nvrtc.h>

#include <array>
#include <map>
#include <mutex>

#include "sigma1/backend/cuda/cache_folder.cuh"
#include "sigma1/backend/cuda/compile_text.h"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/base/crc32c.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"

namespace sigma1::cuda {
namespace {

// What our headers need of others', which may not be where a program runs: tags of formats, names
// of integers, and a type that is not used.
constexpr const char* kIntegers =
    "using int64_t = long long;\nusing uint16_t = unsigned short;\nusing uint32_t = unsigned;\n"
    "using uint64_t = unsigned long long;\nnamespace std { enum class byte : unsigned char {}; }\n";
constexpr const char* kTraits =
    "namespace std {\ntemplate <class A, class B> constexpr bool is_same_v = false;\n"
    "template <class A> constexpr bool is_same_v<A, A> = true;\n}\n";
constexpr const char* kHalf = "struct __half {};\n";
constexpr const char* kBfloat = "struct __nv_bfloat16 {};\n";
constexpr const char* kDriver = "struct CUtensorMap;\n";

struct Header {
  const char* name;
  std::string text;
};

// The text has what it includes of its own.
std::string without_own_includes(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n') + 1);
    bool is_own = line.starts_with("#include \"") || line.starts_with("#pragma once");
    if (!is_own) result += line;
    text.remove_prefix(line.size());
  }
  return result;
}

const std::array<Header, 6>& headers() {
  static const std::array<Header, 6> all{{
      {"cstdint", kIntegers},
      {"type_traits", kTraits},
      {"cuda_fp16.h", kHalf},
      {"cuda_bf16.h", kBfloat},
      {"cuda.h", kDriver},
      {"sigma1/backend/cuda/cluster_kernel.cuh", without_own_includes(kClusterText)},
  }};
  return all;
}

// The architecture that the library itself is built for.
constexpr const char* kArchitecture = "--gpu-architecture=sm_90a";

class NvrtcProgram {
 public:
  explicit NvrtcProgram(const std::string& source) {
    std::vector<const char*> texts, names;
    for (const Header& each : headers()) {
      texts.push_back(each.text.c_str());
      names.push_back(each.name);
    }
    expect(nvrtcCreateProgram(&program_, source.c_str(), "chain.cu", static_cast<int>(names.size()),
                              texts.data(), names.data()));
  }
  ~NvrtcProgram() { nvrtcDestroyProgram(&program_); }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  std::string compile() {
    const char* options[] = {kArchitecture, "--std=c++20", "--device-as-default-execution-space"};
    nvrtcResult result = nvrtcCompileProgram(program_, std::size(options), options);
    if (result != NVRTC_SUCCESS) throw Bug("cuda: a kernel does not compile:\n{}", log());
    size_t size = 0;
    expect(nvrtcGetCUBINSize(program_, &size));
    std::string code(size, '\0');
    expect(nvrtcGetCUBIN(program_, code.data()));
    return code;
  }

 private:
  static void expect(nvrtcResult result) {
    if (result != NVRTC_SUCCESS) throw Bug("cuda: nvrtc: {}", nvrtcGetErrorString(result));
  }
  std::string log() const {
    size_t size = 0;
    expect(nvrtcGetProgramLogSize(program_, &size));
    std::string text(size, '\0');
    expect(nvrtcGetProgramLog(program_, text.data()));
    return text;
  }

  nvrtcProgram program_ = nullptr;
};

// All that machine code follows from.
std::string key_of(const std::string& source) {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  std::string key = fmt::format("nvrtc {}.{} {}\n{}", major, minor, kArchitecture, source);
  for (const Header& each : headers()) key += each.text;
  return key;
}

std::filesystem::path cached_at(const std::string& key) {
  std::filesystem::path folder = cache_folder();
  if (folder.empty()) return folder;
  return folder / "kernels" / fmt::format("{:016x}.cubin", std::hash<std::string>{}(key));
}

// A file is the key, whose hash alone is its name, the code's checksum, and then the code.
std::string checksum_of(std::string_view code) { return fmt::format("\n{:08x}\n", crc32c(code)); }

std::string recall(const std::string& key) {
  std::filesystem::path path = cached_at(key);
  if (path.empty() || !std::filesystem::exists(path)) return "";
  try {
    std::string content = read_file(path.string());
    size_t begin = key.size() + checksum_of("").size();
    if (content.size() <= begin) return "";
    std::string code = content.substr(begin);
    content.resize(begin);
    return content == key + checksum_of(code) ? code : "";
  } catch (const std::exception&) {
    return "";
  }
}

void remember(const std::string& key, const std::string& code) {
  std::filesystem::path path = cached_at(key);
  if (path.empty()) return;
  try {
    std::filesystem::create_directories(path.parent_path());
    const std::string checksum = checksum_of(code);
    const std::string_view pieces[] = {key, checksum, code};
    write_file(path.string(), pieces);
  } catch (const std::exception&) {
    // A cache that cannot be written costs the next run a second, no more.
  }
}

cudaKernel_t load(const std::string& source, const char* name) {
  const std::string code = machine_code(source);
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), name);
  check(cudaLibraryGetKernel(&kernel, library, name), name);
  return kernel;
}

}  // namespace

std::string machine_code(const std::string& source) {
  std::string key = key_of(source), code = recall(key);
  if (code.empty()) remember(key, code = NvrtcProgram(source).compile());
  return code;
}

cudaKernel_t compiled_kernel(const std::string& source, const char* name) {
  static std::mutex mutex;
  static std::map<std::string, cudaKernel_t> known;  // for as long as the program runs
  std::lock_guard lock(mutex);
  auto [found, is_new] = known.try_emplace(source);
  if (is_new) {
    try {
      found->second = load(source, name);
    } catch (...) {
      known.erase(found);
      throw;
    }
  }
  int device = 0;
  check(cudaGetDevice(&device), name);
  // Shared memory begins on 1,024 bytes, which may leave as many unused.
  check(cudaKernelSetAttributeForDevice(found->second, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        kMostShared, device),
        name);
  return found->second;
}

}  // namespace sigma1::cuda
