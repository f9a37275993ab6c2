// Figures are written as SVG by hand: it needs no plotting library, prints at any size, and the
// same figure is the same bytes on every machine and in every locale.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sigma1 {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  [[nodiscard]] double right() const { return x + width; }
  [[nodiscard]] double bottom() const { return y + height; }
  [[nodiscard]] bool contains(Point p) const {
    return p.x >= x && p.x <= right() && p.y >= y && p.y <= bottom();
  }
};

// Text whose tail may be raised, because Unicode's superscripts are missing from many fonts.
struct Text {
  std::string body;
  std::string power = {};
};

// At most two decimals: finer than any screen or printer shows.
[[nodiscard]] std::string svg_number(double value);
[[nodiscard]] std::string xml_escape(std::string_view text);

// An estimate on the wide side, because the reader's font is unknown here and text that runs into
// its neighbour is worse than a little air.
[[nodiscard]] double text_width(const Text& text, double font_size);

struct SvgAttribute {
  SvgAttribute(std::string_view key, double number) : name(key), value(svg_number(number)) {}
  SvgAttribute(std::string_view key, std::string text) : name(key), value(std::move(text)) {}
  SvgAttribute(std::string_view key, const char* text) : name(key), value(text) {}

  std::string_view name;
  std::string value;
};
using SvgAttributes = std::initializer_list<SvgAttribute>;

struct Stroke {
  std::string colour;
  double width = 1;
  const char* dash = "";
  const char* kind = "";  // its class
  double opacity = 1;
};

// The attribute `transform` that turns what stands at a point about it; against the clock when
// negative.
[[nodiscard]] SvgAttribute turned(Point at, double degrees);

class Svg {
 public:
  Svg(double width, double height);

  void element(std::string_view tag, SvgAttributes attributes);
  void line(Point from, Point to, const Stroke& stroke);
  void text(Point at, double font_size, const Text& text, SvgAttributes attributes);
  void open(std::string_view tag, SvgAttributes attributes);
  void close();

  // Closes what is still open; the document takes nothing more afterwards.
  [[nodiscard]] std::string finish() &&;

 private:
  void start(std::string_view tag, SvgAttributes attributes);

  std::string out_;
  std::vector<std::string> open_tags_;
};

// The pieces of a polyline that lie inside the box, each at least one point long; a point that is
// not finite ends a piece. Done here and not left to clip-path alone, because renderers lose
// coordinates that lie millions of pixels away.
[[nodiscard]] std::vector<std::vector<Point>> clip_polyline(const std::vector<Point>& points,
                                                            const Box& box);

}  // namespace sigma1
