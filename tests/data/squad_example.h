// Passages small enough to count tokens by hand, for tests of what is made of SQuAD.
#pragma once

#include <string>
#include <vector>

#include "sigma1/data/squad_features.h"

namespace sigma1 {

// A token for each word, ids by place.
inline WordPiece letter_pieces() {
  return {
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\ng\nh\n##x\ncafe\nwho\n[\n]\nsep\n.\n",
      LetterCase::lower};
}

inline SquadData one_paragraph(const std::string& context, std::vector<SquadQuestion> questions,
                               SquadVersion version = SquadVersion::v1_1) {
  return {.path = "data.json",
          .version = version,
          .articles = {{.title = "T", .paragraphs = {{context, std::move(questions)}}}}};
}

}  // namespace sigma1
