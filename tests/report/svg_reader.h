// Tests ask a figure what it shows, not how its text is spelled, so that they hold for any layout.
#pragma once

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "sigma1/report/svg.h"

namespace sigma1 {

struct Element {
  std::string tag;
  std::map<std::string, std::string> attributes = {};
  std::string content = {};  // text in it and in its children, still escaped

  // Empty where there is none.
  [[nodiscard]] std::string attribute(const std::string& name) const {
    auto it = attributes.find(name);
    return it == attributes.end() ? "" : it->second;
  }
  [[nodiscard]] double number(const std::string& name) const {
    return std::stod(attributes.at(name));
  }
};

// Reads the XML that a figure may consist of and nothing looser: throws where a tag is not closed,
// an attribute not quoted, or a reserved character not escaped.
class SvgParser {
 public:
  explicit SvgParser(const std::string& text) : text_(text) {}

  std::vector<Element> parse() {
    while (at_ < text_.size()) {
      if (text_[at_] == '<') {
        text_.compare(at_, 2, "</") == 0 ? end_tag() : start_tag();
      } else {
        character();
      }
    }
    expect(open_.empty());
    return elements_;
  }

 private:
  static void expect(bool well_formed) {
    if (!well_formed) throw std::runtime_error("not well-formed");
  }

  std::string until(const char* ends) {
    size_t end = text_.find_first_of(ends, at_);
    expect(end != std::string::npos);
    std::string taken = text_.substr(at_, end - at_);
    at_ = end;
    return taken;
  }

  void skip(const std::string& expected) {
    expect(text_.compare(at_, expected.size(), expected) == 0);
    at_ += expected.size();
  }

  void start_tag() {
    skip("<");
    Element element{.tag = until(" />")};
    while (text_[at_] == ' ') {
      skip(" ");
      std::string name = until("= <>");
      skip("=\"");
      std::string value = until("\"<");
      skip("\"");
      expect(element.attributes.emplace(name, value).second);
    }
    bool closed = text_[at_] == '/';
    skip(closed ? "/>" : ">");
    if (!closed) open_.push_back(elements_.size());
    elements_.push_back(element);
  }

  void end_tag() {
    expect(!open_.empty());
    skip("</" + elements_[open_.back()].tag + ">");
    open_.pop_back();
  }

  void character() {
    expect(text_[at_] != '>');
    bool escaped = text_[at_] != '&';
    for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      escaped = escaped || text_.compare(at_, std::strlen(entity), entity) == 0;
    }
    expect(escaped);
    for (size_t index : open_) elements_[index].content += text_[at_];
    ++at_;
  }

  const std::string& text_;
  size_t at_ = 0;
  std::vector<Element> elements_;
  std::vector<size_t> open_;
};

inline std::vector<Element> with_tag(const std::string& svg, const std::string& tag) {
  std::vector<Element> found;
  for (const Element& element : SvgParser(svg).parse()) {
    if (element.tag == tag) found.push_back(element);
  }
  return found;
}

inline std::vector<Element> with_class(const std::string& svg, const std::string& kind) {
  std::vector<Element> found;
  for (const Element& element : SvgParser(svg).parse()) {
    if (element.attribute("class") == kind) found.push_back(element);
  }
  return found;
}

struct Label {
  double x, y, width;
  std::string content;
};

inline std::vector<Label> labels(const std::string& svg, const std::string& kind) {
  std::vector<Label> found;
  for (const Element& e : with_class(svg, kind)) {
    // The raised part is counted in full size, less than a character too much.
    found.push_back(
        {e.number("x"), e.number("y"), text_width({e.content}, e.number("font-size")), e.content});
  }
  return found;
}

inline std::vector<std::string> names_of(const std::string& svg, const std::string& kind) {
  std::vector<std::string> names;
  for (const Label& label : labels(svg, kind)) names.push_back(label.content);
  return names;
}

inline std::string style_of(const Element& line) {
  return line.attribute("stroke") + " " + line.attribute("stroke-dasharray");
}

struct LegendEntry {
  std::string name, style;
};

// The line in front of each name is the last one drawn before it.
inline std::vector<LegendEntry> legend(const std::string& svg) {
  std::vector<LegendEntry> entries;
  std::string style;
  for (const Element& element : SvgParser(svg).parse()) {
    if (element.tag == "line") style = style_of(element);
    if (element.attribute("class") == "legend") entries.push_back({element.content, style});
  }
  return entries;
}

}  // namespace sigma1
