#include "sigma1/train/event_file.h"

#include <cstring>
#include <set>

#include "sigma1/base/crc32c.h"
#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

// The contents of the records, once their framing is as it must be.
std::vector<std::string> records_of(const std::string& path) {
  std::string bytes = read_file(path);
  auto masked = [](std::string_view text) {
    uint32_t crc = crc32c(text);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
  };
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    uint32_t length_crc = 0, crc = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&length_crc, bytes.data() + at + 8, 4);
    EXPECT_EQ(length_crc, masked(bytes.substr(at, 8)));
    records.push_back(bytes.substr(at + 12, length));
    std::memcpy(&crc, bytes.data() + at + 12 + length, 4);
    EXPECT_EQ(crc, masked(records.back()));
    at += 16 + length;
  }
  return records;
}

class EventFiles : public TemporaryFolderTest {
 protected:
  EventFile open(int64_t last_step = -1) {
    return EventFile(folder_ / "events", last_step, [] { return 2.0; });
  }
  std::string time_ = "\x09\0\0\0\0\0\0\0\x40"s;
};

TEST_F(EventFiles, WritesTheBytesOfTheFormat) {
  EventFile file = open(299);
  file.scalar("loss", 300, 0.5);
  file.flush();
  std::vector<std::string> records = records_of(file.path());
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0], time_ + "\x10\0\x1A\x0D"s + "brain.Event:2");
  EXPECT_EQ(records[1], time_ + "\x10\xAC\x02\x3A\x02\x08\x01"s);
  EXPECT_EQ(records[2], time_ + "\x10\xAC\x02\x2A\x0D\x0A\x0B\x0A\x04loss\x15\0\0\0\x3F"s);
}

TEST_F(EventFiles, WritesHistograms) {
  EventFile file = open();
  std::vector<double> limits = {0, 2}, counts = {0, 2};
  file.histogram("h", 1, {limits, counts, 2, 2, 2, 2});
  file.flush();
  std::string two = "\0\0\0\0\0\0\0\x40"s, zero(8, '\0');
  std::string histogram = "\x09"s + two + "\x11" + two + "\x19" + two + "\x21" + two + "\x29" +
                          two + "\x32\x10" + zero + two + "\x3A\x10" + zero + two;
  ASSERT_EQ(histogram.size(), 81u);
  EXPECT_EQ(records_of(file.path()).at(2),
            time_ + "\x10\x01\x2A\x58\x0A\x56\x0A\x01h\x2A\x51"s + histogram);
  limits.pop_back();
  EXPECT_THROW(file.histogram("h", 1, {limits, counts, 2, 2, 2, 2}), Bug);
}

TEST_F(EventFiles, ResumingAddsAFileThatSortsBehind) {
  std::vector<std::string> made;
  for (int i = 0; i < 12; ++i) made.push_back(open(i).path());
  EXPECT_TRUE(std::is_sorted(made.begin(), made.end()));
  EXPECT_EQ(std::set<std::string>(made.begin(), made.end()).size(), 12u);
  for (const std::string& path : made) {
    EXPECT_EQ(records_of(path).size(), 2u);
    EXPECT_TRUE(fs::path(path).filename().string().starts_with("events.out.tfevents.0000000002."));
  }
}

TEST_F(EventFiles, SaysWhereItCannotWrite) {
  write("events", "a file");
  EXPECT_NE(error_of([this] { open(); }).find((folder_ / "events").string()), std::string::npos);
}

}  // namespace
}  // namespace sigma1
