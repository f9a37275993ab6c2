// Everything that depends on how SVG is spelled or rendered, so that charts only say what to draw.
#include "sigma1/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sigma1 {
namespace {

constexpr double kPowerSize = 0.75;
constexpr double kPowerRise = 0.42;

// In units of the font size, the widths of DejaVu Sans, the widest of the usual stand-ins for
// Helvetica.
double character_width(unsigned char c) {
  constexpr std::string_view narrow = " !'()*,-./:;I[]fijlrt|";
  constexpr std::string_view wide = "%@MWmw";
  if (narrow.find(static_cast<char>(c)) != std::string_view::npos) return 0.4;
  if (wide.find(static_cast<char>(c)) != std::string_view::npos) return 0.94;
  if (c >= 'A' && c <= 'Z') return 0.74;
  if (c < 0x80) return 0.64;
  if (c < 0xC0) return 0;    // the rest of a UTF-8 character that is already counted
  if (c < 0xE3) return 0.7;  // Latin, Greek, mathematical signs
  return 1.05;
}

double string_width(std::string_view text, double font_size) {
  double width = 0;
  for (char c : text) width += character_width(static_cast<unsigned char>(c));
  return width * font_size;
}

// Liang-Barsky: narrows [from, to] of the segment a + t (b - a) to where delta * t <= room.
bool narrow(double delta, double room, double& from, double& to) {
  if (delta == 0) return room >= 0;
  double t = room / delta;
  if (delta < 0) {
    from = std::max(from, t);
  } else {
    to = std::min(to, t);
  }
  return from <= to;
}

bool clip_segment(Point& a, Point& b, const Box& box) {
  double from = 0, to = 1, dx = b.x - a.x, dy = b.y - a.y;
  bool seen = narrow(-dx, a.x - box.x, from, to) && narrow(dx, box.right() - a.x, from, to) &&
              narrow(-dy, a.y - box.y, from, to) && narrow(dy, box.bottom() - a.y, from, to);
  if (!seen) return false;
  Point start = a;
  if (from > 0) a = {start.x + from * dx, start.y + from * dy};
  if (to < 1) b = {start.x + to * dx, start.y + to * dy};
  return true;
}

bool is_finite(Point p) { return std::isfinite(p.x) && std::isfinite(p.y); }

}  // namespace

std::string svg_number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string xml_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';  // XML forbids most control characters even when they are escaped
    } else {
      out += c;
    }
  }
  return out;
}

double text_width(const Text& text, double font_size) {
  return string_width(text.body, font_size) + string_width(text.power, font_size * kPowerSize);
}

SvgAttribute turned(Point at, double degrees) {
  return {"transform",
          fmt::format("rotate({} {} {})", svg_number(degrees), svg_number(at.x), svg_number(at.y))};
}

Svg::Svg(double width, double height) {
  std::string view = fmt::format("0 0 {} {}", svg_number(width), svg_number(height));
  open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
               {"width", width},
               {"height", height},
               {"viewBox", view},
               {"font-family", "Helvetica, Arial, sans-serif"}});
  element("rect", {{"width", width}, {"height", height}, {"fill", "#ffffff"}});
}

void Svg::start(std::string_view tag, SvgAttributes attributes) {
  out_ += fmt::format("{:{}}<{}", "", 2 * open_tags_.size(), tag);
  for (const SvgAttribute& a : attributes) {
    if (!a.value.empty()) out_ += fmt::format(" {}=\"{}\"", a.name, xml_escape(a.value));
  }
}

void Svg::element(std::string_view tag, SvgAttributes attributes) {
  start(tag, attributes);
  out_ += "/>\n";
}

void Svg::line(Point from, Point to, const Stroke& stroke) {
  element("line", {{"class", stroke.kind},
                   {"x1", from.x},
                   {"y1", from.y},
                   {"x2", to.x},
                   {"y2", to.y},
                   {"stroke", stroke.colour},
                   {"stroke-width", stroke.width},
                   {"stroke-opacity", stroke.opacity == 1 ? "" : svg_number(stroke.opacity)},
                   {"stroke-dasharray", stroke.dash}});
}

void Svg::text(Point at, double font_size, const Text& text, SvgAttributes attributes) {
  if (text.body.empty()) return;
  start("text", attributes);
  out_ += fmt::format(" x=\"{}\" y=\"{}\" font-size=\"{}\">{}", svg_number(at.x), svg_number(at.y),
                      svg_number(font_size), xml_escape(text.body));
  if (!text.power.empty()) {
    out_ += fmt::format("<tspan dy=\"{}\" font-size=\"{}\">{}</tspan>",
                        svg_number(-kPowerRise * font_size), svg_number(kPowerSize * font_size),
                        xml_escape(text.power));
  }
  out_ += "</text>\n";
}

void Svg::open(std::string_view tag, SvgAttributes attributes) {
  start(tag, attributes);
  out_ += ">\n";
  open_tags_.emplace_back(tag);
}

void Svg::close() {
  std::string tag = std::move(open_tags_.back());
  open_tags_.pop_back();
  out_ += fmt::format("{:{}}</{}>\n", "", 2 * open_tags_.size(), tag);
}

std::string Svg::finish() && {
  while (!open_tags_.empty()) close();
  return std::move(out_);
}

std::vector<std::vector<Point>> clip_polyline(const std::vector<Point>& points, const Box& box) {
  std::vector<std::vector<Point>> pieces;
  bool joined = false;
  for (size_t i = 0; i < points.size(); ++i) {
    Point b = points[i];
    if (i == 0 || !is_finite(b) || !is_finite(points[i - 1])) {
      joined = is_finite(b) && box.contains(b);
      if (joined) pieces.push_back({b});
      continue;
    }
    Point a = points[i - 1];
    if (!clip_segment(a, b, box)) {
      joined = false;
      continue;
    }
    if (!joined) pieces.push_back({a});
    pieces.back().push_back(b);
    joined = box.contains(points[i]);
  }
  return pieces;
}

}  // namespace sigma1
