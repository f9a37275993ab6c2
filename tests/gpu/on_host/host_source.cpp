#include "tests/gpu/on_host/host_source.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

int run_command(const std::string& command) { return std::system(command.c_str()); }

void compile(const std::string& source, const NewFolder& folder, const char* options,
             const std::string& to) {
  std::string file = folder.file("kernel.cpp");
  std::ofstream(file) << source;
  std::string command = fmt::format(
      "'{}' -std=c++20 -O1 -w -Wno-psabi {} -include host_gpu.h -DFMT_HEADER_ONLY "
      "-I'{}/tests/gpu/on_host' "
      "-I'{}' -isystem '{}' '{}' -o '{}' -pthread",
      SIGMA1_COMPILER, options, SIGMA1_SOURCES, SIGMA1_SOURCES, SIGMA1_CUDA_HEADERS, file, to);
  if (run_command(command) != 0) throw Bug("does not compile: {}", command);
}

}  // namespace

NewFolder::NewFolder()
    : path_((std::filesystem::temp_directory_path() / "sigma1_host_XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) throw Bug("no folder {}", path_);
}
NewFolder::~NewFolder() { std::filesystem::remove_all(path_); }

HostLibrary::HostLibrary(const std::string& source) {
  std::string file = folder_.file("kernel.so");
  compile(source, folder_, "-shared -fPIC -fno-gnu-unique", file);
  loaded_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded_ == nullptr) throw Bug("{}", dlerror());
}
HostLibrary::~HostLibrary() { dlclose(loaded_); }

void* HostLibrary::find(const char* name) const {
  void* found = dlsym(loaded_, name);
  if (found == nullptr) throw Bug("{}", dlerror());
  return found;
}

std::string races_of_program(const std::string& source, std::span<const std::byte> file) {
  NewFolder folder;
  std::string program = folder.file("kernel"), input = folder.file("input"),
              said = folder.file("said");
  compile(source, folder, "-g -fsanitize=thread", program);
  std::ofstream(input, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  int status = run_command(fmt::format("'{}' '{}' > '{}' 2>&1", program, input, said));
  std::ifstream output(said);
  std::string text{std::istreambuf_iterator<char>(output), {}};
  if (status != 0 && text.empty()) throw Bug("{}: status {}", program, status);
  return text;
}

}  // namespace sigma1
