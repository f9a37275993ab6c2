// Plain text as documents of sentences, which is what BERT's pretraining pairs.
#pragma once

#include <string_view>
#include <vector>

namespace sigma1 {

// The lines of each document; documents are parted by lines that are empty or blank.
std::vector<std::vector<std::string_view>> split_documents(std::string_view text);

// The sentences of a line. One ends behind . ! or ? and closing quotes or brackets that follow it,
// where a blank comes next and then anything but a small letter; but not behind a dot of
//   one letter (J. Smith), or a word with a dot inside (U.S., e.g.),
//   Mr Mrs Ms Dr Prof St Jr Sr vs No Mt Gen Col Lt Capt Rev Hon Inc Ltd Co Corp Fig cf ca etc.
// Cheap and wrong at times: a pair of sentences is only a task to learn from. Blanks around a
// sentence are left out.
std::vector<std::string_view> split_sentences(std::string_view line);

}  // namespace sigma1
