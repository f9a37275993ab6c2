#include "sigma1/data/squad.h"

#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"
#include "sigma1/data/text_file.h"

namespace sigma1 {
namespace {

using nlohmann::json;

// Where a reader is, for the one line that says what is wrong.
struct Place {
  std::string where;
  bool needs_texts = false;

  Place named(std::string name) const { return {std::move(name), needs_texts}; }
  Place inner(const std::string& more) const { return named(fmt::format("{}, {}", where, more)); }

  [[noreturn]] void fail(std::string_view expected, std::string_view got) const {
    throw Error("{}: expected {}, got {}", where, expected, got);
  }

  const json* find(const json& object, const char* key) const {
    if (!object.is_object()) fail("an object", object.type_name());
    auto entry = object.find(key);
    return entry == object.end() ? nullptr : &*entry;
  }

  const json& list(const json& object, const char* key) const {
    const json* value = find(object, key);
    if (!value || !value->is_array())
      fail(fmt::format("a list '{}'", key), value ? value->type_name() : "none");
    return *value;
  }

  const std::string& text(const json& object, const char* key) const {
    const json* value = find(object, key);
    if (!value || !value->is_string())
      fail(fmt::format("a text '{}'", key), value ? value->type_name() : "none");
    return value->get_ref<const std::string&>();
  }

  std::string text_if_any(const json& object, const char* key) const {
    return find(object, key) ? text(object, key) : std::string();
  }
  std::string text_to_read(const json& object, const char* key) const {
    return needs_texts ? text(object, key) : text_if_any(object, key);
  }
};

SquadAnswer read_answer(const json& object, const Place& place) {
  const json* start = place.find(object, "answer_start");
  if (start && !start->is_number_integer())
    place.fail("a whole number 'answer_start'", start->type_name());
  return {place.text(object, "text"), start ? start->get<int64_t>() : -1};
}

SquadQuestion read_question(const json& object, const Place& article, size_t number) {
  Place unnamed = article.inner(fmt::format("question {}", number));
  SquadQuestion question{.id = unnamed.text(object, "id"), .text = "", .answers = {}};
  Place place = article.inner(fmt::format("question '{}'", question.id));
  question.text = place.text_to_read(object, "question");
  for (const json& answer : place.list(object, "answers"))
    question.answers.push_back(read_answer(answer, place));
  return question;
}

SquadArticle read_article(const json& object, const Place& file, size_t number) {
  Place unnamed = file.inner(fmt::format("article {}", number));
  SquadArticle article{.title = unnamed.text_if_any(object, "title"), .paragraphs = {}};
  Place place = article.title.empty()
                    ? unnamed
                    : unnamed.named(fmt::format("{} '{}'", unnamed.where, article.title));
  size_t questions = 0;
  for (const json& paragraph : place.list(object, "paragraphs")) {
    SquadParagraph& made = article.paragraphs.emplace_back();
    made.context = place.text_to_read(paragraph, "context");
    for (const json& question : place.list(paragraph, "qas"))
      made.questions.push_back(read_question(question, place, ++questions));
  }
  return article;
}

SquadVersion read_version(const json& file, const Place& place) {
  std::string version = place.text(file, "version");
  if (version == "1.1" || version == "v1.1") return SquadVersion::v1_1;
  if (version == "2.0" || version == "v2.0") return SquadVersion::v2_0;
  place.fail("version 1.1 or v2.0", fmt::format("'{}'", version));
}

json parse(const std::string& path) {
  try {
    return json::parse(read_text(path));
  } catch (const json::parse_error& error) {
    Place{path}.fail("JSON", fmt::format("damage at byte {}", error.byte));
  } catch (const json::out_of_range&) {
    Place{path}.fail("JSON", "a number that is too large for any type");
  }
}

// An object of plain values, read as it comes: JSON values in memory would lose the order.
class FlatObject : public nlohmann::json_sax<json> {
 public:
  explicit FlatObject(const std::string& path) : place_{path} {}

  ByQuestion<json> take() { return std::move(values_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(json::binary_t&) override { return add(nullptr); }
  bool start_object(size_t) override {
    if (inside_) complain("an object");
    return inside_ = true;
  }
  bool key(std::string& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(size_t) override { complain("a list"); }
  bool end_array() override { return true; }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    place_.fail("JSON", fmt::format("damage at byte {}", byte));
  }

 private:
  [[noreturn]] void complain(std::string_view got) const {
    if (!inside_) place_.fail("an object", got);
    place_.inner(fmt::format("question '{}'", key_)).fail("a plain value", got);
  }
  bool add(json value) {
    if (!inside_) complain(value.type_name());
    values_.set(key_, std::move(value));
    return true;
  }

  Place place_;
  ByQuestion<json> values_;
  std::string key_;
  bool inside_ = false;
};

ByQuestion<json> load_flat(const std::string& path) {
  FlatObject object(path);
  json::sax_parse(read_text(path), &object);
  return object.take();
}

Place place_of(const std::string& path, const std::string& id) {
  return Place{path}.inner(fmt::format("question '{}'", id));
}

SquadData read_data(const Place& place) {
  json file = parse(place.where);
  SquadData data{.path = place.where, .version = read_version(file, place), .articles = {}};
  for (const json& article : place.list(file, "data"))
    data.articles.push_back(read_article(article, place, data.articles.size() + 1));
  return data;
}

}  // namespace

SquadData load_squad(const std::string& path) { return read_data({.where = path}); }

SquadData load_squad_texts(const std::string& path) {
  return read_data({.where = path, .needs_texts = true});
}

ByQuestion<std::string> load_squad_predictions(const std::string& path) {
  ByQuestion<std::string> predictions(path);
  for (const auto& [id, value] : load_flat(path)) {
    if (!value.is_string()) place_of(path, id).fail("a text", value.type_name());
    predictions.set(id, value.get<std::string>());
  }
  return predictions;
}

ByQuestion<SquadNumber> load_squad_numbers(const std::string& path) {
  ByQuestion<SquadNumber> numbers(path);
  for (const auto& [id, value] : load_flat(path)) {
    if (!value.is_number()) place_of(path, id).fail("a number", value.type_name());
    numbers.set(id, {value.get<double>(), value.is_number_integer()});
  }
  return numbers;
}

}  // namespace sigma1
