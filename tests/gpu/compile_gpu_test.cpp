// Machine code of kernels that are compiled at run time, and the folder that keeps it. Needs no
// GPU.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "sigma1/backend/cuda/compile.cuh"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "tests/gpu/on_host/host_source.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class MachineCode : public testing::Test {
 protected:
  MachineCode() {
    if (const char* before = std::getenv(kVariable)) before_ = before;
    ::setenv(kVariable, folder_.file("cache").c_str(), 1);
  }
  ~MachineCode() override {
    before_ ? ::setenv(kVariable, before_->c_str(), 1) : ::unsetenv(kVariable);
  }

  // Paths of what is kept.
  std::vector<std::string> kept() const {
    std::vector<std::string> paths;
    fs::path kernels = fs::path(folder_.file("cache")) / "sigma1" / "kernels";
    for (const auto& each : fs::directory_iterator(kernels)) paths.push_back(each.path().string());
    return paths;
  }
  // A file that is written again is another.
  static ino_t number_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_ino;
  }

 private:
  static constexpr const char* kVariable = "XDG_CACHE_HOME";
  NewFolder folder_;
  std::optional<std::string> before_;
};

std::string kernel_named(const std::string& name) {
  return "extern \"C\" __global__ void " + name + "(int* to) { *to = 1; }\n";
}

TEST_F(MachineCode, IsKeptForTheNextRun) {
  std::string code = cuda::machine_code(kernel_named("one"));
  EXPECT_NE(code.find("one"), std::string::npos);
  auto files = kept();
  ASSERT_EQ(files.size(), 1);
  ino_t number = number_of(files.front());
  EXPECT_EQ(cuda::machine_code(kernel_named("one")), code);
  EXPECT_EQ(number_of(files.front()), number) << "compiled again";
  EXPECT_NE(cuda::machine_code(kernel_named("another")), code);
  EXPECT_EQ(kept().size(), 2);
}

TEST_F(MachineCode, IsCompiledAgainWhereTheFileIsDamaged) {
  std::string code = cuda::machine_code(kernel_named("one"));
  std::string path = kept().front(), whole = read_file(path), flipped = whole;
  flipped[whole.size() - 5] ^= 1;
  for (const std::string& damaged : {flipped, whole.substr(0, whole.size() - 100), std::string()}) {
    write_file(path, damaged);
    EXPECT_EQ(cuda::machine_code(kernel_named("one")), code);
    EXPECT_EQ(read_file(path), whole);
  }
}

TEST_F(MachineCode, OfAMistakeIsABug) {
  EXPECT_THROW(cuda::machine_code("this is no kernel"), Bug);
}

}  // namespace
}  // namespace sigma1
