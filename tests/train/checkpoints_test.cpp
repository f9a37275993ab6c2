#include "sigma1/train/checkpoints.h"

#include <set>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class Checkpoints : public TemporaryFolderTest {
 protected:
  void save(int64_t step, int keep) {
    value_ = static_cast<float>(step);
    std::vector<StoredTensor> tensors = {{"w", "F32", {1}, std::as_bytes(std::span(&value_, 1))}};
    save_checkpoint(folder_ / "run", step, tensors, {{"seed", "3"}}, keep);
  }
  std::set<std::string> names() {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_ / "run"))
      all.insert(entry.path().filename());
    return all;
  }
  void damage(int64_t step) {
    fs::path path = checkpoint_path(folder_ / "run", step);
    std::string bytes = read_file(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(path, bytes);
  }
  Checkpoint latest() { return latest_checkpoint(folder_ / "run"); }

  float value_ = 0;
};

TEST_F(Checkpoints, KeepsTheNewest) {
  for (int64_t step : {0, 999, 1000, 100'000'000}) save(step, 2);
  EXPECT_EQ(names(),
            (std::set<std::string>{"step-00001000.safetensors", "step-100000000.safetensors"}));
  Checkpoint found = latest();
  EXPECT_EQ(found.step, 100'000'000);
  EXPECT_EQ(found.file.metadata().at("seed"), "3");
  EXPECT_EQ(found.file.at("w").data.size(), 4u);
  EXPECT_TRUE(found.warnings.empty());
}

TEST_F(Checkpoints, PassesOverABrokenOneWithAWarning) {
  for (int64_t step : {1, 2, 3}) save(step, 3);
  damage(3);
  Checkpoint found = latest();
  EXPECT_EQ(found.step, 2);
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_NE(found.warnings[0].find("step-00000003.safetensors: damaged"), std::string::npos);
}

TEST_F(Checkpoints, OneThatIsRenamedIsNotTheStepItSays) {
  for (int64_t step : {1, 2}) save(step, 3);
  fs::rename(checkpoint_path(folder_ / "run", 2), checkpoint_path(folder_ / "run", 5));
  Checkpoint found = latest();
  EXPECT_EQ(found.step, 1);
  EXPECT_EQ(found.warnings.size(), 1u);
}

TEST_F(Checkpoints, NoneThatIsWholeIsAnError) {
  EXPECT_THROW(latest(), Error);
  fs::create_directories(folder_ / "run");
  EXPECT_NE(error_of([this] { latest(); }).find("got none"), std::string::npos);
  save(1, 1);
  damage(1);
  EXPECT_NE(error_of([this] { latest(); }).find("step-00000001"), std::string::npos);
}

TEST_F(Checkpoints, AreThereWhenOneWasEverWhole) {
  EXPECT_FALSE(has_checkpoint(folder_ / "run"));
  fs::create_directory(folder_ / "run");
  write("run/step-00000001.safetensors.part", "half");
  EXPECT_FALSE(has_checkpoint(folder_ / "run"));
  save(1, 1);
  damage(1);
  EXPECT_TRUE(has_checkpoint(folder_ / "run"));
}

TEST_F(Checkpoints, AFileWithoutAStepIsNotACheckpoint) {
  write_safetensors(folder_ / "other.safetensors", {});
  EXPECT_THROW(load_checkpoint(folder_ / "other.safetensors"), Error);
}

TEST_F(Checkpoints, GoingBackDropsWhatCameAfter) {
  for (int64_t step : {10, 20, 30}) save(step, 3);
  save(15, 3);
  EXPECT_EQ(latest().step, 15);
  EXPECT_EQ(names(),
            (std::set<std::string>{"step-00000010.safetensors", "step-00000015.safetensors"}));
}

TEST_F(Checkpoints, FailingToSaveKeepsTheOld) {
  save(1, 1);
  fs::create_directories(checkpoint_path(folder_ / "run", 2));
  EXPECT_THROW(save(2, 1), Error);
  EXPECT_TRUE(fs::is_regular_file(checkpoint_path(folder_ / "run", 1)));
}

TEST_F(Checkpoints, CleansUpAfterAnInterruptedWriteAndLeavesOthersFiles) {
  fs::create_directories(folder_ / "run");
  for (const char* name : {"run/step-00000001.safetensors.77.part", "run/notes.txt",
                           "run/step-1.safetensors", "run/step-best.safetensors"})
    write(name, "x");
  save(2, 1);
  EXPECT_EQ(names(), (std::set<std::string>{"notes.txt", "step-00000002.safetensors",
                                            "step-1.safetensors", "step-best.safetensors"}));
  EXPECT_EQ(latest().step, 2);
}

}  // namespace
}  // namespace sigma1
