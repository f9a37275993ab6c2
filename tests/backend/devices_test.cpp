#include "sigma1/backend/devices.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

std::string mistake(const char* name) {
  try {
    find_device(name);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Devices, TheCpuIsAlwaysThere) {
  EXPECT_EQ(&find_device("cpu"), &cpu_device());
  EXPECT_EQ(cpu_device().name(), "cpu");
}

TEST(Devices, AMistakeSaysWhatIsExpected) {
  for (const char* name :
       {"", "gpu", "cuda:", "cuda:x", "cuda:1.5", "cuda:-1", "CPU", "cuda+exact", "cuda+tf32=1"}) {
    std::string said = mistake(name);
    EXPECT_TRUE(
        said.starts_with("device: expected auto, cpu, cuda, cuda:N or either with some of "
                         "+tf32, +fast-sums, +exact-sums"))
        << said;
    EXPECT_TRUE(said.ends_with(fmt::format(", got '{}'", name))) << said;
  }
}

TEST(Devices, ChoicesOfProductsAreToldAsTheyAreAsked) {
  using Sums = ProductChoices::Sums;
  EXPECT_EQ(to_string(ProductChoices{}), "");
  EXPECT_EQ(to_string(ProductChoices{.tf32 = true, .sums = Sums::fast}), "+tf32+fast-sums");
  EXPECT_EQ(to_string(ProductChoices{.sums = Sums::exact}), "+exact-sums");
  // What is missing is the GPU, or the build: the choices were understood.
  EXPECT_EQ(mistake("cuda:1023+exact-sums+tf32").find("expected auto"), std::string::npos);
}

TEST(Devices, AMissingGpuIsTold) {
  // No machine has so many, whatever this build can do.
  EXPECT_NE(mistake("cuda:1023").find("cuda"), std::string::npos);
  if (!has_cuda()) {
    EXPECT_NE(mistake("cuda").find("'make cuda'"), std::string::npos);
  }
}

TEST(Devices, MemoryIsZeroAndTakesWhatIsWritten) {
  const Device& device = cpu_device();
  DeviceBytes memory(device, 8);
  int64_t value = -1;
  device.read(&value, memory.data(), 8);
  EXPECT_EQ(value, 0);
  int64_t written = 0x123456789;
  device.write(memory.data(), &written, 8);
  device.read(&value, memory.data(), 8);
  EXPECT_EQ(value, written);
}

TEST(Devices, OneNumberThatIsNotFiniteIsFound) {
  std::vector<float> numbers(5000, 1.0f);
  Buffer buffer;
  buffer.data = reinterpret_cast<std::byte*>(numbers.data());
  buffer.shape = {5000};
  uint64_t step = 7, bad_step = 0;
  int runs = 0;
  auto check = [&] { cpu_device().when_finite({&buffer, 1}, &step, &bad_step, [&] { ++runs; }); };
  check();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(bad_step, 0);
  numbers[4999] = INFINITY;
  check();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(bad_step, 8);
  numbers[4999] = 1;
  step = 8;
  check();
  EXPECT_EQ(runs, 1);  // until somebody forgets the bad step
  EXPECT_EQ(bad_step, 8);
}

}  // namespace
}  // namespace sigma1
