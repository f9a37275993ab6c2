#include "sigma1/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <utility>

namespace sigma1 {
namespace {

constexpr double kPause = 0.1;

std::string format_rate(double rate) {
  if (!std::isfinite(rate) || rate < 0) return "?";
  const char* unit = "";
  for (const char* larger : {"k", "M", "G"}) {
    if (rate < 999.5) break;
    rate /= 1000;
    unit = larger;
  }
  return fmt::format("{:.{}f}{}{}", rate, rate < 99.95 ? 1 : 0, *unit != 0 ? " " : "", unit);
}

// A line that wraps could not be written over.
size_t columns(std::FILE* out) {
  winsize size{};
  bool known = ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - size_t{1} : 79;
}

}  // namespace

std::string format_duration(double seconds) {
  constexpr double kLongest = 1e12;
  if (!(seconds >= 0 && seconds < kLongest)) return "?";
  int64_t s = std::llround(seconds), m = s / 60, h = m / 60;
  if (m == 0) return fmt::format("{} s", s);
  if (h == 0) return fmt::format("{} m {:02} s", m, s % 60);
  if (h < 24) return fmt::format("{} h {:02} m", h, m % 60);
  return fmt::format("{} d {:02} h", h / 24, h % 24);
}

std::string format_progress(const ProgressState& state) {
  std::string text = fmt::format("step {}/{}  loss {:.4f}", state.step, state.total, state.loss);
  if (!std::isnan(state.bits_per_character))
    text += fmt::format("  bpc {:.3f}", state.bits_per_character);
  text += fmt::format("  {} tokens/s", format_rate(state.tokens_per_second));
  if (state.share_of_floor > 0)
    text += fmt::format("  {:.0f} % of floor", 100 * state.share_of_floor);
  return text + fmt::format("  {} left", format_duration(state.seconds_left));
}

bool is_terminal(std::FILE* out) { return ::isatty(::fileno(out)) != 0; }

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressLine::ProgressLine(std::FILE* out, std::function<double()> clock)
    : out_(out),
      clock_(std::move(clock)),
      shown_(is_terminal(out)),
      started_(clock_()),
      next_(started_) {}

ProgressLine::~ProgressLine() { finish(); }

bool ProgressLine::is_due(bool last) {
  if (!shown_) return false;
  double now = clock_();
  if (now < next_ && !last) return false;
  next_ = now + kPause;
  return true;
}

void ProgressLine::update(const ProgressState& state) {
  if (is_due(state.step >= state.total)) draw(format_progress(state));
}

void ProgressLine::update(std::string_view what, int64_t done, int64_t total) {
  if (!is_due(done >= total)) return;
  double each = done > 0 ? (clock_() - started_) / static_cast<double>(done) : NAN;
  draw(fmt::format("{} {}/{}, {} left", what, done, total,
                   format_duration(each * static_cast<double>(total - done))));
}

void ProgressLine::update(const std::string& text) {
  if (is_due(false)) draw(text);
}

void ProgressLine::draw(const std::string& text) {
  constexpr const char* kClearRest = "\x1b[K";
  fmt::print(out_, "\r{}{}", text.substr(0, columns(out_)), kClearRest);
  std::fflush(out_);
  open_ = true;
}

void ProgressLine::finish() {
  if (!open_) return;
  open_ = false;
  std::fputc('\n', out_);
  std::fflush(out_);
}

}  // namespace sigma1
