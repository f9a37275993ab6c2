#include "sigma1/data/squad_batch.h"

#include <gtest/gtest.h>

#include "sigma1/base/error.h"
#include "tests/data/squad_example.h"

namespace sigma1 {
namespace {

TEST(SquadBatch, IsWhatTheModelReads) {
  auto data = one_paragraph("a b c", {{"first", "who", {{"b c", 2}}}, {"second", "h g", {}}});
  SquadFeatures features = make_squad_features(data, letter_pieces());
  constexpr size_t kWindows[] = {1, 0};
  SquadBatch batch = squad_batch(features, kWindows, 9);
  auto id = [pieces = letter_pieces()](const char* token) {
    return static_cast<int32_t>(pieces.id(token));
  };
  int32_t cls = id("[CLS]"), sep = id("[SEP]"), pad = id("[PAD]");
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{
                              cls, id("h"), id("g"), sep, id("a"), id("b"), id("c"), sep, pad,  //
                              cls, id("who"), sep, id("a"), id("b"), id("c"), sep, pad, pad}));
  EXPECT_EQ(batch.segments,
            (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(batch.padding,
            (std::vector<float>{1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(batch.start, (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(batch.end, (std::vector<int32_t>{0, 5}));
  EXPECT_THROW(squad_batch(features, kWindows, 7), Bug);
}

}  // namespace
}  // namespace sigma1
