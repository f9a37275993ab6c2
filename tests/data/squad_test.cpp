#include "sigma1/data/squad.h"

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

class Squad : public TemporaryFolderTest {
 protected:
  // One line that names the file and all of `parts`.
  template <class Load>
  void expect_error(Load load, const std::string& content, const std::vector<std::string>& parts) {
    std::string path = write("file.json", content);
    std::string message = error_of([&] { load(path); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with(path)) << message;
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << message << " does not say " << part;
  }
};

TEST_F(Squad, ReadsWhatIsThere) {
  SquadData data = load_squad(write("data.json", R"({"version": "v2.0", "data": [
    {"title": "One", "paragraphs": [{"context": "Là bas.", "qas": [
      {"id": "a", "question": "Where?", "answers": [{"text": "bas", "answer_start": 3}]},
      {"id": "b", "question": "Why?", "answers": [], "is_impossible": true}]}]},
    {"paragraphs": [{"qas": [{"id": "c", "answers": [{"text": "x"}]}]}]}]})"));
  EXPECT_EQ(data.version, SquadVersion::v2_0);
  ASSERT_EQ(data.articles.size(), 2u);
  const SquadParagraph& paragraph = data.articles[0].paragraphs.at(0);
  EXPECT_EQ(data.articles[0].title, "One");
  EXPECT_EQ(paragraph.context, "Là bas.");
  EXPECT_EQ(paragraph.questions.at(0).text, "Where?");
  EXPECT_EQ(paragraph.questions.at(0).answers.at(0).text, "bas");
  EXPECT_EQ(paragraph.questions.at(0).answers.at(0).start, 3);
  EXPECT_TRUE(paragraph.questions.at(1).answers.empty());
  EXPECT_EQ(data.articles[1].paragraphs.at(0).questions.at(0).answers.at(0).start, -1);
  std::vector<std::string> ids;
  data.for_each_question([&](const auto&, const SquadQuestion& q) { ids.push_back(q.id); });
  EXPECT_EQ(ids, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(Squad, NamesArticleAndQuestionOfWhatIsWrong) {
  auto article = [](const std::string& rest) {
    return R"({"version": "1.1", "data": [{"title": "One", "paragraphs": [)" + rest + "]}]}";
  };
  std::vector<std::string> one{"article 1 'One'"}, q{"article 1 'One'", "question 'q7'"};
  expect_error(load_squad, article("3"), one);
  expect_error(load_squad, article(R"({"context": 1, "qas": []})"), one);
  expect_error(load_squad, article(R"({"qas": {}})"), {"article 1 'One'", "'qas'", "object"});
  expect_error(load_squad, article(R"({"qas": [{"answers": []}]})"),
               {"question 1", "'id'", "none"});
  expect_error(load_squad, article(R"({"qas": [{"id": "q7"}]})"), q);
  expect_error(load_squad, article(R"({"qas": [{"id": "q7", "answers": [3]}]})"), q);
  expect_error(load_squad, article(R"({"qas": [{"id": "q7", "answers": [{"text": null}]}]})"), q);
  expect_error(
      load_squad,
      article(R"({"qas": [{"id": "q7", "answers": [{"text": "", "answer_start": "3"}]}]})"), q);
  expect_error(load_squad, R"({"version": "1.1", "data": [{"title": "T"}]})",
               {"'T'", "'paragraphs'"});
}

TEST_F(Squad, AModelNeedsContextsAndQuestions) {
  auto data = [](const std::string& paragraph) {
    return R"({"version": "1.1", "data": [{"title": "One", "paragraphs": [)" + paragraph + "]}]}";
  };
  std::string asked = R"({"context": "", "qas": [{"id": "q7", "question": "", "answers": []}]})";
  EXPECT_EQ(load_squad_texts(write("whole.json", data(asked))).articles.size(), 1u);
  std::string no_context = R"({"qas": []})";
  std::string no_question = R"({"context": "C", "qas": [{"id": "q7", "answers": []}]})";
  expect_error(load_squad_texts, data(no_context), {"article 1 'One'", "'context'", "none"});
  expect_error(load_squad_texts, data(no_question), {"'One', question 'q7'", "'question'"});
}

TEST_F(Squad, NamesWhatIsNoData) {
  expect_error(load_squad, "[1, 2]", {"an object", "array"});
  expect_error(load_squad, R"({"data": []})", {"'version'"});
  expect_error(load_squad, R"({"version": "3", "data": []})", {"'3'"});
  expect_error(load_squad, R"({"version": "1.1", "data": [)", {"JSON", "byte"});
  expect_error(load_squad, R"({"version": 1e400, "data": []})", {"JSON", "a number"});
}

TEST_F(Squad, ReadsPredictionsInOrderAndTheLastOfTwo) {
  auto predictions = load_squad_predictions(write("p.json", R"({"b": "1", "a": "é", "b": "3"})"));
  ASSERT_EQ(predictions.size(), 2u);
  EXPECT_EQ(predictions.begin()->first, "b");
  EXPECT_EQ(*predictions.find("b"), "3");
  EXPECT_EQ(*predictions.find("a"), "é");
  EXPECT_EQ(predictions.find("c"), nullptr);
}

TEST_F(Squad, TellsWholeNumbersFromOthers) {
  auto numbers = load_squad_numbers(write("n.json", R"({"a": 1, "b": 1.0, "c": -2e-3})"));
  EXPECT_TRUE(numbers.find("a")->whole);
  EXPECT_FALSE(numbers.find("b")->whole);
  EXPECT_EQ(numbers.find("c")->value, -0.002);
}

TEST_F(Squad, NamesTheQuestionOfAWrongPrediction) {
  expect_error(load_squad_predictions, R"({"a": "x", "b": 3})",
               {"question 'b'", "a text", "number"});
  expect_error(load_squad_predictions, R"({"a": null})", {"question 'a'", "null"});
  expect_error(load_squad_predictions, R"({"a": ["x"]})", {"question 'a'", "a list"});
  expect_error(load_squad_predictions, R"({"a": {"text": "x"}})", {"question 'a'", "an object"});
  expect_error(load_squad_predictions, R"(["x"])", {"an object", "a list"});
  expect_error(load_squad_predictions, "7", {"an object", "number"});
  expect_error(load_squad_predictions, R"({"a": "x")", {"JSON", "byte"});
  expect_error(load_squad_numbers, R"({"a": "x"})", {"question 'a'", "a number", "string"});
}

}  // namespace
}  // namespace sigma1
