#include "sigma1/train/metrics.h"

#include <cmath>
#include <limits>
#include <vector>

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Metrics : public TemporaryFolderTest {
 protected:
  std::filesystem::path path() { return folder_ / "metrics.jsonl"; }
  void run(int64_t from, int64_t to) {
    MetricsFile file(path(), from);
    for (int64_t step = from + 1; step <= to; ++step)
      file.write(step, std::vector<Metric>{{"loss", 1 / static_cast<double>(step + 3)}});
  }
};

TEST_F(Metrics, OneObjectALineInTheOrderGiven) {
  MetricsFile file(path());
  file.write(0, std::vector<Metric>{{"loss", 0.1}, {"bpc", 1.0 / 3}, {"a \"b\"", 1e300}});
  file.write(1,
             std::vector<Metric>{{"loss", kInfinity}, {"bpc", -kInfinity}, {"x", kInfinity * 0}});
  EXPECT_EQ(read_file(path()),
            "{\"step\":0,\"loss\":0.1,\"bpc\":0.3333333333333333,\"a \\\"b\\\"\":1e+300}\n"
            "{\"step\":1,\"loss\":null,\"bpc\":null,\"x\":null}\n");
  EXPECT_THROW(file.write(2, std::vector<Metric>{{"step", 1}}), Bug);
}

TEST_F(Metrics, AreResumedAsALogIs) {
  run(-1, 20);
  std::string whole = read_file(path());
  run(7, 20);
  EXPECT_EQ(read_file(path()), whole);
}

TEST_F(Metrics, OneOfThemReadsAsACurve) {
  write("metrics.jsonl",
        "{\"step\":1,\"loss\":3}\n{\"step\":1,\"bpc\":9}\n{\"step\":4,\"loss\":null}\n"
        "{\"step\":5,\"loss\":0.5}\n");
  MetricCurve curve = read_metric(path(), "loss");
  EXPECT_EQ(curve.steps, (std::vector<double>{1, 4, 5}));
  ASSERT_EQ(curve.values.size(), 3U);
  EXPECT_EQ(curve.values[0], 3);
  EXPECT_TRUE(std::isnan(curve.values[1]));
  EXPECT_EQ(curve.values[2], 0.5);
}

}  // namespace
}  // namespace sigma1
