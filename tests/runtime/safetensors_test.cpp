#include "sigma1/runtime/safetensors.h"

#include <cstring>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class Safetensors : public TemporaryFolderTest {
 protected:
  // Tensors of every size of element, none of them in the order of the file.
  void write_example() { write_safetensors(path_, example_, {{"step", "7"}, {"ß", "\"\n"}}); }

  // A file of a given header and data, as another program might write it.
  std::string complaint_about(const std::string& header, const std::string& data) {
    uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    return complaint_about_bytes(bytes + header + data);
  }
  std::string complaint_about_bytes(const std::string& bytes) {
    write("file", bytes);
    return error_of([this] { SafetensorsFile file(path_); });
  }

  fs::path path_ = fs::path();
  std::vector<float> weights_ = {1, -2, 3.5f, 0, 5, 6};
  std::vector<uint8_t> codes_ = {1, 2, 255};
  std::vector<int64_t> counts_ = {int64_t{1} << 40};
  std::vector<StoredTensor> example_ = {
      {"codes", "F8_E4M3", {3}, std::as_bytes(std::span(codes_))},
      {"counts", "I64", {}, std::as_bytes(std::span(counts_))},
      {"empty", "F16", {0, 4}, {}},
      {"a/weights", "F32", {2, 3}, std::as_bytes(std::span(weights_))},
  };

  void SetUp() override {
    TemporaryFolderTest::SetUp();
    path_ = folder_ / "file";
  }
};

TEST_F(Safetensors, ReadsWhatItWrote) {
  write_example();
  SafetensorsFile file(path_);
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensors()[0].name, "a/weights");
  for (const StoredTensor& expected : example_) {
    const StoredTensor& read = file.at(expected.name);
    EXPECT_EQ(read.dtype, expected.dtype);
    EXPECT_EQ(read.shape, expected.shape);
    ASSERT_EQ(read.data.size(), expected.data.size());
    EXPECT_TRUE(std::equal(read.data.begin(), read.data.end(), expected.data.begin()));
  }
  EXPECT_EQ(file.metadata().at("step"), "7");
  EXPECT_EQ(file.metadata().at("ß"), "\"\n");
  EXPECT_EQ(file.find("weights"), nullptr);
  EXPECT_EQ(error_of([&] { file.at("a/weight"); }),
            path_.string() + ": expected a tensor 'a/weight', got one named 'a/weights'");
}

TEST_F(Safetensors, TheBytesDoNotDependOnTheOrderGiven) {
  write_example();
  std::string bytes = read_file(path_);
  std::reverse(example_.begin(), example_.end());
  write_example();
  EXPECT_EQ(read_file(path_), bytes);
}

TEST_F(Safetensors, DataIsAligned) {
  for (size_t i = 0; i < 70; ++i) {
    write_safetensors(path_, example_, {{"pad", std::string(i, 'x')}});
    std::string bytes = read_file(path_);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    EXPECT_EQ((8 + length) % 64, 0u);
    int64_t count = 0;
    std::memcpy(&count, bytes.data() + 8 + length, 8);
    EXPECT_EQ(count, counts_[0]) << "the largest elements come first";
  }
}

TEST_F(Safetensors, MovingKeepsTheData) {
  write_example();
  SafetensorsFile first(path_);
  SafetensorsFile second(std::move(first));
  EXPECT_EQ(static_cast<uint8_t>(second.at("codes").data[2]), 255);
}

TEST_F(Safetensors, EveryLengthButTheRightOneIsAnError) {
  write_example();
  std::string good = read_file(path_);
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(complaint_about_bytes(good.substr(0, size)), "no error") << size;
  EXPECT_NE(complaint_about_bytes(good + "x"), "no error");
  EXPECT_EQ(complaint_about_bytes(good), "no error");
}

TEST_F(Safetensors, EveryFlippedBitIsAnError) {
  write_example();
  std::string good = read_file(path_);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string damaged = good;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::string complaint = complaint_about_bytes(damaged);
    ASSERT_NE(complaint, "no error") << "bit " << bit;
    ASSERT_NE(complaint.find(path_), std::string::npos) << complaint;
  }
}

TEST_F(Safetensors, ReadsFilesOfOtherWriters) {
  EXPECT_EQ(complaint_about("{}", ""), "no error");
  EXPECT_EQ(complaint_about(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}  )", "xy"),
            "no error");
}

TEST_F(Safetensors, SaysWhatIsWrong) {
  auto expect = [this](const std::string& header, const std::string& data,
                       const std::string& said) {
    std::string complaint = complaint_about(header, data);
    EXPECT_EQ(complaint, path_.string() + ": " + said);
  };
  expect("{\"a\":\xff}", "", "expected a JSON header, got damage at byte 6 of it");
  expect("{\"a\":1e400}", "",
         "expected a JSON header, got a number in it that is too large for any type");
  auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"("a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}";
  };
  std::string known = "expected dtype F32, F16, BF16, F8_E4M3, F8_E5M2, I32, I64 or U8, got ";
  std::string range = "expected offsets [begin, end] within 4 bytes of data, got ";
  expect("{" + tensor("\"F64\"", "[]", "[0,8]") + "}", "12345678",
         "tensor 'a': " + known + "\"F64\"");
  expect("{" + tensor("1", "[]", "[0,8]") + "}", "12345678", "tensor 'a': " + known + "1");
  expect("{" + tensor("\"U8\"", "[4]", "[0,5]") + "}", "1234", "tensor 'a': " + range + "[0,5]");
  expect("{" + tensor("\"U8\"", "[4]", "[4,0]") + "}", "1234", "tensor 'a': " + range + "[4,0]");
  expect("{" + tensor("\"U8\"", "[4]", "[0]") + "}", "1234", "tensor 'a': " + range + "[0]");
  expect("{" + tensor("\"U8\"", "[4]", "[0,-1]") + "}", "1234",
         "tensor 'a': expected whole numbers as data_offsets, got [0,-1]");
  expect("{" + tensor("\"U8\"", "[4.0]", "[0,4]") + "}", "1234",
         "tensor 'a': expected whole numbers as shape, got [4.0]");
  expect("{" + tensor("\"U8\"", "null", "[0,4]") + "}", "1234",
         "tensor 'a': expected whole numbers as shape, got null");
  expect("{" + tensor("\"F32\"", "[2]", "[0,4]") + "}", "1234",
         "tensor 'a': shape [2] of F32 does not take the 4 bytes of its range");
  expect("{" + tensor("\"U8\"", "[2]", "[0,2]") + "}", "123", "expected 2 bytes of data, got 3");
  expect("{" + tensor("\"U8\"", "[1]", "[1,2]") + "}", "12", "no tensor has byte 0 of the data");
  expect("{" + tensor("\"U8\"", "[1]", "[0,1]") + "," + tensor("\"U8\"", "[1]", "[1,2]") + "}",
         "12", "the header has the name 'a' twice");
  expect(R"({"a":1})", "", "tensor 'a': expected its record, got 1");
  expect(R"({"a":[[[[1]]]]})", "", "expected a header of tensors, got one nested too deep");
  expect("[]", "", "expected a header that starts with '{'");
  expect(R"({"__metadata__":{"a":1}})", "", "expected text as __metadata__ 'a', got 1");
  expect(R"({"__metadata__":[]})", "", "expected __metadata__ to map names to texts");
  expect(R"({"__metadata__":{"crc32c":"00000001"}})", "",
         "damaged: expected crc32c 00000001, got 00000000");
  expect(R"({"__metadata__":{"crc32c":"00000000"}})", "",
         "damaged: expected a header_crc32c, got none");
}

TEST_F(Safetensors, AnotherKindOfFileIsToldSo) {
  for (const char* other : {"", "PK", "{\"model_type\": \"bert\"}", "sigma1bp and more"}) {
    std::string complaint = complaint_about_bytes(other);
    EXPECT_NE(complaint.find("expected a safetensors file"), std::string::npos) << complaint;
  }
}

TEST_F(Safetensors, OverlapsAndGapsAreErrors) {
  auto record = [](const std::string& name, int begin, int end) {
    return fmt::format(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name,
                       end - begin, begin, end);
  };
  auto pair = [&](int begin, int end) {
    return "{" + record("a", 0, 2) + "," + record("b", begin, end) + "}";
  };
  EXPECT_EQ(complaint_about(pair(2, 4), "1234"), "no error");
  EXPECT_NE(complaint_about(pair(1, 4), "1234").find("overlap at byte 1"), std::string::npos);
  EXPECT_NE(complaint_about(pair(0, 4), "1234").find("overlap at byte 0"), std::string::npos);
  EXPECT_NE(complaint_about(pair(3, 4), "1234").find("has byte 2"), std::string::npos);
}

TEST_F(Safetensors, SizesThatNoMemoryHoldsAreErrors) {
  for (uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}}) {
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    EXPECT_NE(complaint_about_bytes(bytes + "{}").find("at most 100000000"), std::string::npos);
  }
  for (const char* shape : {"[18446744073709551615]", "[4294967296,4294967296]",
                            "[9223372036854775808,0]", "[18446744073709551616]"}) {
    std::string complaint = complaint_about(
        fmt::format(R"({{"a":{{"dtype":"U8","shape":{},"data_offsets":[0,0]}}}})", shape), "");
    EXPECT_NE(complaint.find("tensor 'a'"), std::string::npos) << complaint;
  }
  EXPECT_NE(complaint_about(std::string(200'000, '['), ""), "no error");
  EXPECT_NE(complaint_about("{\"a\":" + std::string(200'000, '['), ""), "no error");
}

TEST_F(Safetensors, RefusesToWriteWhatIsNotATensor) {
  auto write_one = [this](StoredTensor tensor) {
    std::vector<StoredTensor> tensors = {example_[0], std::move(tensor)};
    write_safetensors(path_, tensors);
  };
  std::span<const std::byte> data = example_[0].data;
  EXPECT_THROW(write_one({"codes", "U8", {3}, data}), Bug);
  EXPECT_THROW(write_one({"codes 2", "U8", {4}, data}), Bug);
  EXPECT_THROW(write_one({"codes 2", "F64", {3}, data}), Bug);
  EXPECT_THROW(write_one({"__metadata__", "U8", {3}, data}), Bug);
  EXPECT_THROW(write_one({"\xFF", "U8", {3}, data}), Error);
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace sigma1
