// The figures and tables of the paper are remade from this output, so its shape and the digits that
// are quoted from it must not drift.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

using nlohmann::json;

constexpr double kFourDigits = 1e-3;  // relative

TEST(Snr, HasEveryFormatAtEveryPowerOfTwo) {
  std::map<std::string, std::vector<double>> sigmas;
  for (const json& row : json_from({"snr", "--sigma", "2^-2:2^2"})) {
    EXPECT_TRUE(row.at("snr").is_number()) << row;
    sigmas[row.at("format")].push_back(row.at("sigma"));
  }
  EXPECT_EQ(sigmas.size(), 5U);
  for (const char* format : {"fp16", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz"}) {
    EXPECT_EQ(sigmas[format], (std::vector<double>{0.25, 0.5, 1, 2, 4})) << format;
  }
}

TEST(Snr, QuotedDigitsAreStable) {
  const std::pair<const char*, double> cases[] = {
      {"fp8_e4m3", 1419.4}, {"fp8_e5m2", 358.35}, {"fp16", 2.3179e7}, {"int8:127/180", 5.974}};
  for (const auto& [format, snr] : cases) {
    json list = json_from({"snr", "--sigma", "1", "--formats", format});
    ASSERT_EQ(list.size(), 1U) << format;
    EXPECT_EQ(list[0].at("format"), format);
    EXPECT_EQ(list[0].at("sigma"), 1);
    EXPECT_NEAR(list[0].at("snr"), snr, kFourDigits * snr) << format;
  }
}

TEST(Snr, RangeThatEndsBetweenPowersStopsBelowItsEnd) {
  json list = json_from({"snr", "--sigma", "1:7.9", "--formats", "fp16"});
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[2].at("sigma"), 4);
}

TEST(Snr, TableHasALineForEachSigma) {
  ProgramResult result = run_program({"snr", "--sigma", "1:4", "--formats", "fp16,fp8_e4m3"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_NE(lines[0].find("fp8_e4m3"), std::string::npos);
  EXPECT_NE(lines[1].find("1419.4"), std::string::npos);
}

TEST(Snr, DrawsAFigureBesidesPrinting) {
  auto path = std::filesystem::path(testing::TempDir()) /
              ("sigma1_cli_snr_" + std::to_string(getpid()) + ".svg");
  json list = json_from({"snr", "--sigma", "1:16", "--formats", "fp8_e4m3", "--svg", path});
  EXPECT_EQ(list.size(), 5U);
  std::stringstream figure;
  figure << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  std::string text = figure.str();
  EXPECT_TRUE(text.starts_with("<svg") || text.starts_with("<?xml")) << text.substr(0, 100);
  EXPECT_NE(text.find("</svg>"), std::string::npos);
  EXPECT_NE(text.find("<path"), std::string::npos);
}

TEST(Snr, OutliersStandBesideThePaper) {
  std::multimap<double, double> ours_by_paper;
  for (const json& row : json_from({"snr", "--outliers"})) {
    EXPECT_TRUE(row.at("quantity").is_string());
    ours_by_paper.emplace(row.at("paper"), row.at("ours"));
  }
  // What this program finds, in the order of rounding to nearest, then toward zero.
  const std::pair<double, std::vector<double>> cases[] = {
      {2.03, {5.974, 2.116}}, {14.8, {53.76, 14.85}}, {1290, {1419.4}}, {3, {3}}, {90, {145}}};
  for (const auto& [paper, expected] : cases) {
    auto [begin, end] = ours_by_paper.equal_range(paper);
    ASSERT_EQ(static_cast<size_t>(std::distance(begin, end)), expected.size()) << paper;
    for (double ours : expected) EXPECT_NEAR((begin++)->second, ours, kFourDigits * ours) << paper;
  }
}

}  // namespace
}  // namespace sigma1
