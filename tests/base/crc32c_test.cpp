#include "sigma1/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sigma1/base/rng.h"

namespace sigma1 {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32c, KnownChecksums) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i);
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
}

TEST(Crc32c, TableAndInstructionAgreeForEveryLengthAndStart) {
  RandomStream random(1, "crc32c");
  std::vector<std::byte> bytes(200);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.bits(i));
  for (size_t begin = 0; begin < 9; ++begin)
    for (size_t size = 0; begin + size <= bytes.size(); ++size) {
      auto piece = std::span(bytes).subspan(begin, size);
      ASSERT_EQ(crc32c(piece, 7), detail::crc32c_by_table(piece, 7)) << begin << " " << size;
    }
}

TEST(Crc32c, GoesOnFromWhatStandsBefore) {
  std::string text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), crc32c(text)) << cut;
}

}  // namespace
}  // namespace sigma1
