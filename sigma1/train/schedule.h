// The learning rate of every step, as a pure function of the step, so that a resumed run needs
// nothing but the number of its step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sigma1 {

// The rate rises in a line over `warmup` steps, the last of which has the full rate; then, with p
// from 0 to 1 over the steps after it, f the final fraction and n = step − warmup:
//   constant   rate
//   half-life  rate · 2^(−n / half_life)
//   linear     rate · (1 − p(1 − f))
//   cosine     rate · (f + (1 − f)(1 + cos πp) / 2)
struct Schedule {
  std::string kind = "half-life";
  double rate = 0;
  int64_t warmup = 0;  // in steps
  int64_t steps = 0;
  double half_life = 0;       // in steps; 0 is steps / 8
  double final_fraction = 0;  // of linear and cosine
};

// Throws Error when a setting is not what it must be, or says something that its kind ignores.
void check_schedule(const Schedule& schedule);

// "cosine", "half-life:half_life=1000", "cosine:warmup=100,final=0.1": kind and settings, for a run
// of so many steps. Throws Error as check_schedule does.
Schedule parse_schedule(std::string_view text, double rate, int64_t steps);

// Of a checked schedule; steps count from 0, and after the last the rate stays where it ends.
double rate_at(const Schedule& schedule, int64_t step);

}  // namespace sigma1
