// A run's curves for TensorBoard: event files as its own writer makes them, protobuf messages in
// checksummed records, written by hand because these few fields are all of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "sigma1/base/file.h"

namespace sigma1 {

struct HistogramSummary {
  // counts[i] values lie above limits[i − 1] and at or below limits[i].
  std::span<const double> limits;
  std::span<const double> counts;
  double min, max, sum, sum_squares;
};

double seconds_since_1970();

class EventFile {
 public:
  // Makes the folder and in it a file of its own, beside those of earlier parts of the run. Of
  // these TensorBoard shows steps up to `last_step` only, the one that this part resumes from.
  explicit EventFile(const std::filesystem::path& folder, int64_t last_step = -1,
                     std::function<double()> clock = seconds_since_1970);

  const std::string& path() const { return file_.path(); }
  void scalar(std::string_view tag, int64_t step, double value);
  void histogram(std::string_view tag, int64_t step, const HistogramSummary& histogram);
  void flush();

 private:
  void write_event(int64_t step, std::string_view content);

  std::function<double()> clock_;
  AppendFile file_;
};

}  // namespace sigma1
