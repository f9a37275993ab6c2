#include "sigma1/train/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "sigma1/base/file.h"

namespace sigma1 {
namespace {

TEST(Progress, Durations) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.6), "1 m 00 s");
  EXPECT_EQ(format_duration(125), "2 m 05 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 00 m");
  EXPECT_EQ(format_duration(3 * 3600 + 7 * 60 + 59), "3 h 07 m");
  EXPECT_EQ(format_duration(24 * 3600), "1 d 00 h");
  EXPECT_EQ(format_duration(51.5 * 3600), "2 d 03 h");
  for (double none : {-1.0, std::nan(""), HUGE_VAL}) EXPECT_EQ(format_duration(none), "?");
}

TEST(Progress, Lines) {
  EXPECT_EQ(format_progress({1200, 20000, 1.23456, 1.7811, 12345, 125}),
            "step 1200/20000  loss 1.2346  bpc 1.781  12.3 k tokens/s  2 m 05 s left");
  EXPECT_EQ(format_progress({1, 2, 0.5, std::nan(""), 999.4, 0}),
            "step 1/2  loss 0.5000  999 tokens/s  0 s left");
  EXPECT_EQ(format_progress({1, 2, std::nan(""), std::nan(""), 1234567, 0}),
            "step 1/2  loss nan  1.2 M tokens/s  0 s left");
}

// A terminal that nobody looks at: what is written to it can be read at its other end.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) : control_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_GE(control_, 0);
    EXPECT_EQ(::grantpt(control_) | ::unlockpt(control_), 0);
    file_.reset(std::fopen(::ptsname(control_), "r+"));
    termios plain{};
    ::tcgetattr(::fileno(file_.get()), &plain);
    plain.c_oflag = 0;
    ::tcsetattr(::fileno(file_.get()), TCSANOW, &plain);
    winsize size{24, columns, 0, 0};
    ::ioctl(control_, TIOCSWINSZ, &size);
    ::fcntl(control_, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() { ::close(control_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::FILE* file() { return file_.get(); }
  // What is written arrives in its order, but later and in parts: all is there when a mark behind
  // it is.
  std::string written() {
    constexpr char kMark = '\0';
    EXPECT_EQ(::write(::fileno(file_.get()), &kMark, 1), 1);
    std::string text;
    while (!text.ends_with(kMark)) {
      constexpr int kMostMilliseconds = 10'000;
      pollfd arrival{control_, POLLIN, 0};
      if (::poll(&arrival, 1, kMostMilliseconds) != 1) return text + " and no mark";
      char part[4096];
      ssize_t count = ::read(control_, part, sizeof part);
      if (count > 0) text.append(part, static_cast<size_t>(count));
    }
    text.pop_back();
    return text;
  }

 private:
  int control_;
  FilePointer file_;
};

ProgressState at_step(int64_t step) { return {step, 100, 1, std::nan(""), 5, 9}; }
std::string drawn(int64_t step) { return "\r" + format_progress(at_step(step)) + "\x1b[K"; }

TEST(Progress, DrawsAtMostTenTimesASecondAndTheEnd) {
  Terminal terminal(100);
  double now = 5;
  ProgressLine line(terminal.file(), [&now] { return now; });
  line.update(at_step(1));
  EXPECT_EQ(terminal.written(), drawn(1));
  now += 0.09;
  line.update(at_step(2));
  EXPECT_EQ(terminal.written(), "");
  now += 0.02;
  line.update(at_step(3));
  EXPECT_EQ(terminal.written(), drawn(3));
  line.update(at_step(100));
  EXPECT_EQ(terminal.written(), drawn(100));
  line.finish();
  line.finish();
  EXPECT_EQ(terminal.written(), "\n");
}

TEST(Progress, EndsItsLineWhenItGoes) {
  Terminal terminal(100);
  { ProgressLine untouched(terminal.file()); }
  EXPECT_EQ(terminal.written(), "");
  { ProgressLine(terminal.file()).update(at_step(1)); }
  EXPECT_EQ(terminal.written(), drawn(1) + "\n");
}

TEST(Progress, NeverWraps) {
  Terminal terminal(21);
  ProgressLine line(terminal.file());
  line.update(at_step(1));
  EXPECT_EQ(terminal.written(), "\r" + format_progress(at_step(1)).substr(0, 20) + "\x1b[K");
}

TEST(Progress, IsSilentWhereThereIsNoTerminal) {
  FilePointer file(std::tmpfile());
  {
    ProgressLine line(file.get());
    line.update(at_step(1));
    line.update(at_step(100));
  }
  EXPECT_EQ(std::ftell(file.get()), 0);
}

}  // namespace
}  // namespace sigma1
