#include "sigma1/train/event_file.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

#include "sigma1/base/crc32c.h"
#include "sigma1/base/error.h"
#include "sigma1/base/protobuf.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using namespace protobuf;

static_assert(std::endian::native == std::endian::little, "numbers are written in memory order");

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
constexpr uint64_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5,
                   kEventSessionLog = 7;
constexpr uint64_t kSessionStatus = 1, kSessionStarts = 1;
constexpr uint64_t kSummaryValue = 1;
constexpr uint64_t kValueTag = 1, kValueNumber = 2, kValueHistogram = 5;
constexpr uint64_t kHistogramLimits = 6, kHistogramCounts = 7;

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string serialize(const HistogramSummary& histogram) {
  double count = std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0);
  std::string bytes;
  uint64_t field = 1;
  for (double value : {histogram.min, histogram.max, count, histogram.sum, histogram.sum_squares})
    bytes += double_field(field++, value);
  return bytes + doubles_field(kHistogramLimits, histogram.limits) +
         doubles_field(kHistogramCounts, histogram.counts);
}

std::string summary(std::string_view tag, std::string_view value) {
  std::string tagged = bytes_field(kValueTag, tag) + std::string(value);
  return bytes_field(kEventSummary, bytes_field(kSummaryValue, tagged));
}

// Rotated and shifted, so that the checksum of data that holds checksums is still a good one.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8; }

std::string record(std::string_view content) {
  std::string length = raw(static_cast<uint64_t>(content.size()));
  return length + raw(masked_crc(length)) + std::string(content) + raw(masked_crc(content));
}

// TensorBoard reads a folder's files in the order of their names, so a later one sorts behind.
AppendFile open_in(const fs::path& folder, double now) {
  constexpr int kMostPerSecond = 1000;
  std::error_code cause;
  fs::create_directories(folder, cause);
  if (cause) throw Error("cannot make the folder {}: {}", folder.string(), cause.message());
  for (int i = 0; i < kMostPerSecond; ++i) {
    auto name = fmt::format("events.out.tfevents.{:010}.{:03}.sigma1",
                            static_cast<int64_t>(std::floor(now)), i);
    if (!fs::exists(folder / name)) return AppendFile(folder / name, AppendFile::Open::only_new);
  }
  throw Error("cannot make an event file in {}: it has {} of this second", folder.string(),
              kMostPerSecond);
}

}  // namespace

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

EventFile::EventFile(const fs::path& folder, int64_t last_step, std::function<double()> clock)
    : clock_(std::move(clock)), file_(open_in(folder, clock_())) {
  write_event(0, bytes_field(kEventFileVersion, "brain.Event:2"));
  write_event(last_step + 1,
              bytes_field(kEventSessionLog, number_field(kSessionStatus, kSessionStarts)));
  flush();
}

void EventFile::write_event(int64_t step, std::string_view content) {
  file_.append(record(double_field(kEventWallTime, clock_()) +
                      number_field(kEventStep, static_cast<uint64_t>(step)) +
                      std::string(content)));
}

void EventFile::scalar(std::string_view tag, int64_t step, double value) {
  write_event(step, summary(tag, float_field(kValueNumber, static_cast<float>(value))));
}

void EventFile::histogram(std::string_view tag, int64_t step, const HistogramSummary& histogram) {
  if (histogram.limits.size() != histogram.counts.size())
    throw Bug("histogram {} has {} limits and {} counts", tag, histogram.limits.size(),
              histogram.counts.size());
  write_event(step, summary(tag, bytes_field(kValueHistogram, serialize(histogram))));
}

void EventFile::flush() { file_.flush(); }

}  // namespace sigma1
