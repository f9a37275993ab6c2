#include "sigma1/numerics/expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <numbers>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

constexpr size_t kMaxLength = 10'000;
constexpr int kMaxNesting = 200;      // the parser recurses
constexpr size_t kMaxPending = 1024;  // operands that wait for others: at most four a nesting

struct Operator {
  char sign;
  BinaryFunction function;
};
constexpr Operator kSums[] = {{'+', [](Dual a, Dual b) { return a + b; }},
                              {'-', [](Dual a, Dual b) { return a - b; }}};
constexpr Operator kProducts[] = {{'*', [](Dual a, Dual b) { return a * b; }},
                                  {'/', [](Dual a, Dual b) { return a / b; }}};
Dual negative(double x) { return {-x, -1}; }

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// An error is one line, whatever the text has in it.
std::string printable(std::string_view text) {
  std::string shown(text);
  std::ranges::replace_if(
      shown, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }, ' ');
  return shown;
}

// Recursive descent; an operation is appended to `steps_` once its operands are.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Expression::Step> parse() {
    if (text_.size() > kMaxLength) {
      throw Error("expression: expected at most {} characters, got {}", kMaxLength, text_.size());
    }
    read_sum();
    skip_space();
    if (at_ < text_.size()) fail_expecting("an operator or the end");
    return std::move(steps_);
  }

 private:
  void read_sum() {
    read_chain(kSums, [this] { read_product(); });
  }
  void read_product() {
    read_chain(kProducts, [this] { read_signed(); });
  }

  template <class ReadOperand>
  void read_chain(std::span<const Operator> operators, ReadOperand read_operand) {
    read_operand();
    while (true) {
      auto found = std::ranges::find_if(operators, [this](auto& o) { return take(o.sign); });
      if (found == operators.end()) return;
      read_operand();
      steps_.emplace_back(found->function);
    }
  }

  // Every way down leads through here, so this is where depth is counted.
  void read_signed() {
    if (++nesting_ > kMaxNesting) {
      fail(fmt::format("expected nesting of at most {}, got more", kMaxNesting), at_);
    }
    if (take('-')) {
      read_signed();
      steps_.emplace_back(negative);
    } else if (take('+')) {
      read_signed();
    } else {
      read_atom();
      if (take('^')) {
        read_signed();  // which takes further powers first, and a sign: 2^-x
        steps_.emplace_back(static_cast<BinaryFunction>(pow));
      }
    }
    --nesting_;
  }

  void read_atom() {
    skip_space();
    char next = at_ < text_.size() ? text_[at_] : '\0';
    if (is_digit(next) || next == '.') {
      read_number();
    } else if (is_letter(next)) {
      read_name();
    } else if (take('(')) {
      read_sum();
      expect(')');
    } else {
      fail_expecting("a number, x, a function or '('");
    }
  }

  void read_number() {
    double value = 0;
    auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem == std::errc::invalid_argument) fail_expecting("a number");
    if (problem == std::errc::result_out_of_range) {
      fail("expected a number in the range of a double, got one beyond it", at_);
    }
    at_ = static_cast<size_t>(end - text_.data());
    steps_.emplace_back(value);
  }

  void read_name() {
    size_t begin = at_;
    while (at_ < text_.size() &&
           (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '_')) {
      ++at_;
    }
    std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "x") {
      steps_.emplace_back(Expression::Input{});
    } else if (word == "pi") {
      steps_.emplace_back(std::numbers::pi);
    } else if (word == "e") {
      steps_.emplace_back(std::numbers::e);
    } else {
      auto functions = elementwise_functions();
      auto found = std::ranges::find(functions, word, &NamedFunction::name);
      if (found == functions.end()) fail_unknown(word, begin);
      std::visit([this](auto function) { read_call(function); }, found->function);
    }
  }

  void read_call(UnaryFunction function) {
    if (take('(')) {
      read_sum();
      expect(')');
    } else {
      steps_.emplace_back(Expression::Input{});
    }
    steps_.emplace_back(function);
  }

  void read_call(BinaryFunction function) {
    expect('(');
    read_sum();
    expect(',');
    read_sum();
    expect(')');
    steps_.emplace_back(function);
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  bool take(char wanted) {
    skip_space();
    bool there = at_ < text_.size() && text_[at_] == wanted;
    if (there) ++at_;
    return there;
  }

  void expect(char wanted) {
    if (!take(wanted)) fail_expecting(fmt::format("'{}'", wanted));
  }

  [[noreturn]] void fail_unknown(std::string_view word, size_t begin) {
    bool called = take('(');
    std::vector<std::string> candidates;
    if (!called) candidates = {"x", "pi", "e"};
    for (const NamedFunction& function : elementwise_functions()) {
      candidates.push_back(function.name);
    }
    std::string nearest = nearest_name(word, candidates);
    fail(fmt::format("unknown {} '{}'", called ? "function" : "name", word), begin,
         nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest));
  }

  [[noreturn]] void fail_expecting(std::string_view wanted) {
    size_t end = std::min(at_ + 1, text_.size());
    while (end < text_.size() && continues_character(text_[end])) ++end;
    std::string got = at_ < end ? fmt::format("'{}'", text_.substr(at_, end - at_)) : "the end";
    fail(fmt::format("expected {}, got {}", wanted, got), at_);
  }

  [[noreturn]] void fail(std::string_view problem, size_t where, std::string_view hint = "") {
    size_t shown = std::min<size_t>(60, text_.size());
    while (shown < text_.size() && continues_character(text_[shown])) ++shown;
    throw Error("expression '{}{}': {} at column {}{}", printable(text_.substr(0, shown)),
                shown < text_.size() ? "..." : "", printable(problem), where + 1, hint);
  }

  std::string_view text_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::vector<Expression::Step> steps_;
};

}  // namespace

Expression::Expression(std::vector<Step> steps) : steps_(std::move(steps)) {
  size_t pending = 0;
  for (const Step& step : steps_) {
    size_t operands = std::holds_alternative<UnaryFunction>(step)    ? 1
                      : std::holds_alternative<BinaryFunction>(step) ? 2
                                                                     : 0;
    if (pending < operands) throw Bug("an expression's step lacks operands");
    pending = pending - operands + 1;
    if (pending > kMaxPending) throw Bug("an expression leaves {} operands pending", pending);
  }
  if (pending != 1) throw Bug("an expression leaves {} values", pending);
}

Dual Expression::operator()(double x) const {
  std::array<Dual, kMaxPending> stack;
  size_t pending = 0;
  for (const Step& step : steps_) {
    if (const auto* number = std::get_if<double>(&step)) {
      stack[pending++] = {*number, 0};
    } else if (const auto* unary = std::get_if<UnaryFunction>(&step)) {
      stack[pending - 1] = apply(*unary, stack[pending - 1]);
    } else if (const auto* binary = std::get_if<BinaryFunction>(&step)) {
      --pending;
      stack[pending - 1] = (*binary)(stack[pending - 1], stack[pending]);
    } else {
      stack[pending++] = {x, 1};
    }
  }
  return stack[0];
}

Expression parse_expression(std::string_view text) { return Expression(Parser(text).parse()); }

}  // namespace sigma1
