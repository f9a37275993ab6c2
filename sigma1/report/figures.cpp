// How a figure looks is decided here and not by its caller, so that everyone who draws it gets the
// paper's.
#include "sigma1/report/figures.h"

#include <algorithm>

#include "sigma1/numerics/snr.h"
#include "sigma1/report/line_chart.h"

namespace sigma1 {

std::string snr_figure(std::span<const NamedCast> casts, std::span<const double> sigmas,
                       bool with_outliers) {
  LineChart chart{.title = "Signal-to-noise ratio of a quantised normal distribution",
                  .x = {.label = "scale σ", .min = sigmas.front(), .max = sigmas.back(), .base = 2},
                  .y = {.label = "SNR", .min = 0.5, .max = 10, .base = 10}};
  for (const auto& [name, cast] : casts) {
    // The fnuz formats differ from their namesakes at the ends of the range only.
    Series series{.name = name,
                  .x = {sigmas.begin(), sigmas.end()},
                  .dashed = cast.format.specials == Specials::nan_is_neg_zero};
    for (double sigma : sigmas) series.y.push_back(normal_snr(cast, sigma));
    chart.y.max = std::max(chart.y.max, 2 * *std::ranges::max_element(series.y));
    chart.series.push_back(std::move(series));
  }
  if (with_outliers) {
    chart.marks = {
        {"non-outliers", 1}, {"median outlier", kMedianOutlier}, {"maximum outlier", kMaxOutlier}};
  }
  return render_svg(chart);
}

}  // namespace sigma1
