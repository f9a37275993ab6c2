// SQuAD as it is published: questions on paragraphs whose answers are spans of them. Files are
// others' and edited by hand, so that whatever is wrong is told by file, article and question.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sigma1/base/text.h"

namespace sigma1 {

struct SquadAnswer {
  std::string text;
  int64_t start;  // in characters of the context; -1 where the file does not say
};

struct SquadQuestion {
  std::string id, text;
  std::vector<SquadAnswer> answers;  // none where the paragraph does not tell
};

struct SquadParagraph {
  std::string context;
  std::vector<SquadQuestion> questions;
};

struct SquadArticle {
  std::string title;
  std::vector<SquadParagraph> paragraphs;
};

enum class SquadVersion { v1_1, v2_0 };

struct SquadData {
  std::string path;  // for messages
  SquadVersion version;
  std::vector<SquadArticle> articles;

  // Calls visit(article, question) for all questions, in the file's order.
  template <class Visit>
  void for_each_question(Visit visit) const {
    for (const SquadArticle& article : articles)
      for (const SquadParagraph& paragraph : article.paragraphs)
        for (const SquadQuestion& question : paragraph.questions) visit(article, question);
  }
};

// The official JSON of v1.1 or v2.0, plain or zstd. Scores need no context or question, and files
// made for them may lack those.
SquadData load_squad(const std::string& path);
// The same for a model to read: every context and question must be there.
SquadData load_squad_texts(const std::string& path);

// Values by question in the order they came, as Python's dict keeps them: the official scores
// depend on that order.
template <class Value>
class ByQuestion {
 public:
  ByQuestion() = default;
  explicit ByQuestion(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }  // for messages
  void set(const std::string& id, Value value) {
    auto [place, is_new] = places_.try_emplace(id, entries_.size());
    if (is_new) {
      entries_.emplace_back(id, std::move(value));
    } else {
      entries_[place->second].second = std::move(value);
    }
  }
  const Value* find(std::string_view id) const {
    auto place = places_.find(id);
    return place == places_.end() ? nullptr : &entries_[place->second].second;
  }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::string path_;
  std::vector<std::pair<std::string, Value>> entries_;
  TextMap<size_t> places_;
};

// A number as JSON writes it: Python prints 1 and 1.0 apart.
struct SquadNumber {
  double value;
  bool whole;
};

// {id: text} and {id: number}, plain or zstd.
ByQuestion<std::string> load_squad_predictions(const std::string& path);
ByQuestion<SquadNumber> load_squad_numbers(const std::string& path);

}  // namespace sigma1
