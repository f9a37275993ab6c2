// How far a run is, on one line of a terminal that is written over and over. Into a file or a pipe
// nothing is written: metrics.jsonl is for those.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace sigma1 {

struct ProgressState {
  int64_t step, total;
  double loss;
  double bits_per_character;  // NaN for a model that has none
  double tokens_per_second;
  double seconds_left;
  double share_of_floor = 0;  // how near a step is to its matrix products alone; 0: not known
};

std::string format_duration(double seconds);  // "45 s", "2 m 05 s", "3 h 07 m", "2 d 03 h"
std::string format_progress(const ProgressState& state);

double steady_seconds();
bool is_terminal(std::FILE* out);

class ProgressLine {
 public:
  // `out` is the caller's and must outlive this.
  explicit ProgressLine(std::FILE* out, std::function<double()> clock = steady_seconds);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void update(const ProgressState& state);  // drawn at most ten times a second, and at the end
  // The same for anything counted: "WHAT 3/10, 5 s left".
  void update(std::string_view what, int64_t done, int64_t total);
  void update(const std::string& text);  // anything else that fits a line
  void finish();  // leaves the line and goes to the next, so that other text can follow

 private:
  bool is_due(bool last);
  void draw(const std::string& text);

  std::FILE* out_;
  std::function<double()> clock_;
  bool shown_;         // whether there is a terminal to show it
  bool open_ = false;  // whether the line awaits its end
  double started_, next_;
};

}  // namespace sigma1
