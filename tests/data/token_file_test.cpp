#include "sigma1/data/token_file.h"

#include "sigma1/base/file.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

using Ids = std::vector<uint16_t>;

const Ids kIds = {0, 50256, 258, 7, 7};

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

// llm.c's, written out by hand.
std::string with_header(int32_t magic, int32_t version, int32_t count, const Ids& ids = kIds) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header) + bytes_of(ids);
}

class TokenFile : public TemporaryFolderTest {
 protected:
  void expect_refusal(std::string_view content, std::initializer_list<const char*> parts) {
    std::string path = write("bad.bin", content);
    std::string message = error_of([&] { read_token_file(path, 50257); });
    EXPECT_NE(message.find(path), std::string::npos) << message;
    for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
};

TEST_F(TokenFile, IsReadWithAndWithoutAHeader) {
  EXPECT_EQ(read_token_file(write("llm_c.bin", with_header(20240520, 1, 5)), 50257), kIds);
  EXPECT_EQ(read_token_file(write("nano.bin", bytes_of(kIds)), 50257), kIds);
  EXPECT_EQ(read_token_file(write("one.bin", bytes_of(Ids{9})), 50257), Ids{9});
}

TEST_F(TokenFile, IsWrittenAsItIsRead) {
  std::string path = folder_ / "out.bin";
  write_token_file(path, kIds);
  EXPECT_EQ(read_file(path), with_header(20240520, 1, 5));
}

TEST_F(TokenFile, MistakesAreNamedWithTheirPlace) {
  expect_refusal("", {"empty"});
  expect_refusal("abc", {"2 bytes", "byte 2"});
  expect_refusal(with_header(20240520, 1, 5).substr(0, 1000), {"1024", "1000"});
  expect_refusal(with_header(20240520, 7, 5), {"version 1", "7", "byte 4"});
  expect_refusal(with_header(20240520, 1, 6), {"6 ids", "10 bytes", "byte 1024"});
  expect_refusal(with_header(20240520, 1, 4), {"4 ids", "10 bytes"});
  expect_refusal(with_header(20240520, 1, -1), {"4294967295 ids"});
  expect_refusal(with_header(20240520, 1, 0, {}), {"says 0"});
  expect_refusal(with_header(20240520, 1, 2, {3, 50257}),
                 {"below 50257", "byte 1026", "vocabulary"});
  expect_refusal(bytes_of(Ids{3, 4, 60000}), {"below 50257", "60000", "byte 4"});
  EXPECT_NE(error_of([&] { read_token_file(folder_ / "no.bin", 9); }).find("no.bin"),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_token_file(folder_, 9); }), "no error");
}

}  // namespace
}  // namespace sigma1
