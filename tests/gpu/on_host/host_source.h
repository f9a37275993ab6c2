// Sources of kernels, compiled to run on the CPU when a test runs.
#pragma once

#include <span>
#include <string>

namespace sigma1 {

// A folder of its own, removed with it.
class NewFolder {
 public:
  NewFolder();
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class HostLibrary {
 public:
  // Throws Bug where the source does not compile.
  explicit HostLibrary(const std::string& source);
  ~HostLibrary();
  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;

  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(find(name));
  }

 private:
  void* find(const char* name) const;

  NewFolder folder_;
  void* loaded_ = nullptr;
};

// Runs a source that has a main in a program of its own that is watched by the thread sanitizer,
// with a file of these bytes as its argument; gives what that says, empty where no thread reads or
// writes what another writes but after it. Throws Bug where there is no such program.
std::string races_of_program(const std::string& source, std::span<const std::byte> file = {});

}  // namespace sigma1
