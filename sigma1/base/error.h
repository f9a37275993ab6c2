// The two ways sigma1 fails, told apart so that a person knows whose move it is: Error is the
// user's (bad input, one line that says what was expected, what came and where), Bug is ours.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace sigma1 {

class Error : public std::runtime_error {
 public:
  template <class... Args>
  explicit Error(fmt::format_string<Args...> text, Args&&... args)
      : std::runtime_error(fmt::format(text, std::forward<Args>(args)...)) {}
};

class Bug : public std::logic_error {
 public:
  template <class... Args>
  explicit Bug(fmt::format_string<Args...> text, Args&&... args)
      : std::logic_error(fmt::format(text, std::forward<Args>(args)...)) {}
};

}  // namespace sigma1
