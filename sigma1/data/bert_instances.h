// Pairs of texts to pretrain BERT on, prepared once: a file of equal records that is mapped into
// memory, so that any record is at hand and none takes memory before it is asked for. Which tokens
// are masked is not in it: that is drawn anew each time (bert_batch.h).
//
// Little-endian: a header of 64 bytes (magic "sigma1bp", version 1, time, vocabulary, the ids of
// [PAD] [CLS] [SEP] [MASK], records, two checksums), then the records, 16 bits a number: tokens of
// all, tokens of the first text with its [CLS] and [SEP], whether the second text is a random one,
// and `time` ids, [PAD] behind the last.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sigma1/base/mapped_file.h"

namespace sigma1 {

struct BertSpecialTokens {
  uint32_t pad = 0, cls = 0, sep = 0, mask = 0;

  bool operator==(const BertSpecialTokens&) const = default;
};

struct BertFileFacts {
  uint32_t time = 0, vocabulary = 0;
  BertSpecialTokens special;
};

// One pair, where it lies.
struct BertInstance {
  int64_t length = 0, first_length = 0;
  bool is_random = false;
  std::span<const uint16_t> tokens;  // `length` of them

  static constexpr int64_t kHead = 3;  // numbers of a record before its tokens
};

// Whole or not there. `records` are BertInstance::kHead + time numbers each.
void write_bert_instances(const std::string& path, const BertFileFacts& facts,
                          std::span<const uint16_t> records);

class BertInstances {
 public:
  // Maps a file and checks it all. Throws Error that names the file and what is wrong.
  explicit BertInstances(const std::string& path);

  const BertFileFacts& facts() const { return facts_; }
  int64_t count() const { return count_; }
  BertInstance at(int64_t index) const;

 private:
  void check(const std::string& path) const;
  int64_t record_size() const { return BertInstance::kHead + facts_.time; }

  MappedFile file_;
  BertFileFacts facts_;
  int64_t count_ = 0;
  const uint16_t* records_ = nullptr;
};

}  // namespace sigma1
