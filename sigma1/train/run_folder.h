// The folder of a run: whether it may be begun or gone on with there, and whether there is room for
// what it will write. Asked before training, not after hours of it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "sigma1/train/train_config.h"

namespace sigma1 {

std::filesystem::path config_path(const std::filesystem::path& folder);
std::filesystem::path checkpoint_folder(const std::filesystem::path& folder);

// The config of the run in a folder, and whether there is one.
bool holds_run(const std::filesystem::path& folder);
TrainConfig run_config(const std::filesystem::path& folder);

// Throws Error for a folder that holds another run, or none to resume.
void check_folder(const std::filesystem::path& folder, bool resume);
void make_folder(const std::filesystem::path& folder);

// While it lives, nobody else trains in this folder: processes that do not know each other, as srun
// starts them without PMIx, would write over each other's files. The system lets go of it however
// the process ends. Throws Error when another has it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

// Throws Error where no file can be written, the folder made if need be.
void check_writable(const std::filesystem::path& folder);
// Throws Error where less than this is free.
void check_room(const std::filesystem::path& folder, int64_t checkpoints, int64_t bytes_of_each);
// How many lie there at most at once: the last to go goes when the next is complete.
int64_t checkpoints_at_once(const TrainConfig& config);
int64_t checkpoint_interval(const TrainConfig& config);

}  // namespace sigma1
