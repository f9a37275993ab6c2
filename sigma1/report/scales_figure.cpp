// The histograms of a whole model. Every row keeps its height and its name however many there are:
// a tall figure can be scrolled, a name that is left out cannot be guessed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/report/axis.h"
#include "sigma1/report/chart_layout.h"
#include "sigma1/report/heat_map.h"
#include "sigma1/report/palette.h"
#include "sigma1/report/scale_figures.h"
#include "sigma1/report/scale_rows.h"

namespace sigma1 {
namespace {

constexpr double kWidth = 720, kBetweenPanels = 16, kBetweenBlocks = 14;
constexpr double kRow = 11, kRowFont = 9.5, kNoteFont = 11;
constexpr double kNarrowestBinade = 3, kWidestBinade = 14;
constexpr double kBinFont = 10;
constexpr double kBold = 1.15;  // how much wider bold text is
constexpr const char* kSubnormalDash = "1.5 2.5";
constexpr const char* kPartLine = "#9a9a9a";
constexpr auto kSubnormals = MagnitudeAxis::Subnormals::one_bin;

double left_of(const std::vector<ScaleBlock>& blocks) {
  double widest = 0;
  for (const ScaleBlock& block : blocks) {
    std::string heading(to_string(block.role));
    widest = std::max(widest, text_width({heading}, kBold * kTitleFont));
    for (const ScaleRow& row : block.rows)
      widest = std::max(widest, text_width({row.name}, kRowFont));
  }
  return kMargin + widest + 6;
}

// The page is shared out among the panels, as long as titles stay apart.
double binade_for(std::span<const ScalePanel> panels, double left) {
  auto count = static_cast<double>(panels.size());
  double room = (kWidth - left - kMargin - (count - 1) * kBetweenPanels) / count;
  FloatFormat fp16 = find_format("fp16").format;
  double binades = fp16.max_exponent() - fp16.min_exponent() + 1;
  auto binade = [&](double pixels) {
    return (pixels - MagnitudeAxis::special_pixels(kSubnormals)) / binades;
  };
  double least = kNarrowestBinade;
  for (const ScalePanel& panel : panels) {
    least = std::max(least, binade(text_width({panel.title}, kLabelFont)));
  }
  return std::max(least, std::min(binade(room), kWidestBinade));
}

// What the lines of a block stand for, side by side above it.
struct Note {
  const char* dash;
  std::string text;
  double x = 0;
};

constexpr double kNoteLead = 23;

double note_width(const Note& note) { return kNoteLead + text_width({note.text}, kNoteFont); }

std::array<Note, 2> notes_of(const FormatStyle& format) {
  Note normal{format.dash, fmt::format("{} largest and smallest normal", format.label)};
  return {normal, Note{kSubnormalDash, "smallest subnormal", note_width(normal) + 12}};
}

// Of a block, from its top.
constexpr double kNoteLine = 14, kTitleLine = 32, kFirstRow = 39, kAxis = 64;

class ScalesPainter {
 public:
  ScalesPainter(std::span<const ScalePanel> panels, std::vector<ScaleBlock> blocks)
      : panels_(panels),
        blocks_(std::move(blocks)),
        left_(left_of(blocks_)),
        axis_(kSubnormals, binade_for(panels, left_)),
        svg_(width(), height()) {}

  std::string paint() && {
    draw_shade_legend(svg_, {width() - kMargin - ShadeLegend::kWidth, kMargin});
    double y = kMargin + ShadeLegend::kHeight;
    for (const ScaleBlock& block : blocks_) {
      paint(block, y);
      y += block_height(block);
    }
    return std::move(svg_).finish();
  }

 private:
  double panel_left(size_t panel) const {
    return left_ + static_cast<double>(panel) * (axis_.length() + kBetweenPanels);
  }
  double width() const {
    double notes = 0;
    for (const FormatStyle& format : {kE4m3Style, kE5m2Style}) {
      for (const Note& note : notes_of(format)) notes = std::max(notes, note.x + note_width(note));
    }
    return kMargin + std::max(panel_left(panels_.size() - 1) + axis_.length(), left_ + notes);
  }

  static double rows_height(const ScaleBlock& block) {
    return kRow * (static_cast<double>(block.rows.size()) + (block.left_out > 0 ? 1 : 0));
  }

  static double block_height(const ScaleBlock& block) {
    return kFirstRow + rows_height(block) + kAxis + kBetweenBlocks;
  }

  double height() const {
    double height = kMargin + ShadeLegend::kHeight;
    for (const ScaleBlock& block : blocks_) height += block_height(block);
    return height;
  }

  void paint(const ScaleBlock& block, double top) {
    const FormatStyle& format = is_gradient(block.role) ? kE5m2Style : kE4m3Style;
    svg_.text({kMargin, top + kTitleLine}, kTitleFont, {std::string(to_string(block.role))},
              {{"class", "role"}, {"font-weight", "bold"}, {"fill", kInk}});
    note(format, top + kNoteLine);
    Box rows{0, top + kFirstRow, axis_.length(), rows_height(block)};
    for (size_t panel = 0; panel < panels_.size(); ++panel) {
      rows.x = panel_left(panel);
      svg_.text({rows.x + rows.width / 2, top + kTitleLine}, kLabelFont, {panels_[panel].title},
                {{"class", "title"}, {"text-anchor", "middle"}, {"fill", kInk}});
      ticks(rows);
    }
    for (size_t i = 0; i < block.rows.size(); ++i) {
      bool after_gap = block.left_out > 0 && i >= block.left_out_before;
      paint(block.rows[i], rows.y + kRow * (static_cast<double>(i) + (after_gap ? 1 : 0)));
    }
    for (size_t panel = 0; panel < panels_.size(); ++panel) {
      rows.x = panel_left(panel);
      limits(format, rows);
      frame(rows);
    }
    if (block.left_out > 0) {
      row_label(fmt::format("… {} more …", block.left_out),
                rows.y + kRow * static_cast<double>(block.left_out_before), "left-out");
    }
  }

  void note(const FormatStyle& format, double y) {
    for (const Note& note : notes_of(format)) {
      double x = left_ + note.x;
      svg_.line({x, y - 4}, {x + kNoteLead - 5, y - 4}, {format.colour, 1.3, note.dash});
      svg_.text({x + kNoteLead, y}, kNoteFont, {note.text},
                {{"class", "note"}, {"fill", format.colour}});
    }
  }

  void row_label(const std::string& text, double y, const char* kind) {
    svg_.text({left_ - 6, y + kRow / 2 + 0.36 * kRowFont}, kRowFont, {text},
              {{"class", kind}, {"text-anchor", "end"}, {"fill", kInk}});
  }

  void paint(const ScaleRow& row, double y) {
    row_label(row.name, y, "name");
    if (row.starts_part) svg_.line({kMargin, y}, {width() - kMargin, y}, {kPartLine, 0.7});
    svg_.open("g", {{"class", "tensor"}, {"shape-rendering", "crispEdges"}});
    for (size_t panel = 0; panel < panels_.size(); ++panel) {
      if (!row.panels[panel]) continue;
      std::vector<double> shares = axis_.shares(*row.panels[panel]);
      for (size_t i = 0; i < shares.size(); ++i) {
        const MagnitudeBin& bin = axis_.bins()[i];
        draw_cell(svg_, {panel_left(panel) + bin.from, y + 0.5, bin.to - bin.from, kRow - 1},
                  shares[i]);
      }
    }
    svg_.close();
  }

  std::vector<int> tick_exponents(int step) const {
    std::vector<int> exponents;
    for (int exponent = axis_.first_binade(); exponent <= axis_.last_binade(); ++exponent) {
      if (exponent % step == 0) exponents.push_back(exponent);
    }
    return exponents;
  }

  double widest_tick(int step) const {
    double widest = 0;
    for (int exponent : tick_exponents(step)) {
      widest = std::max(widest, text_width(power_label(2, exponent), kTickFont));
    }
    return widest;
  }

  void ticks(const Box& rows) {
    double binade = axis_.at(2) - axis_.at(1);
    int step = 2;
    while (step * binade < widest_tick(step) + 4) step *= 2;
    double first = axis_.at(std::ldexp(1.0, axis_.first_binade()));
    for (int exponent : tick_exponents(step)) {
      double along = axis_.at(std::ldexp(1.0, exponent)), x = rows.x + along;
      double reach = text_width(power_label(2, exponent), kTickFont) / 2;
      if (along - reach < first - 4 || along + reach > axis_.bins().back().from) continue;
      svg_.line({x, rows.y}, {x, rows.bottom() + 4}, {kGrid, 0.8});
      svg_.text({x, rows.bottom() + 16}, kTickFont, power_label(2, exponent),
                {{"class", "x-tick"}, {"text-anchor", "middle"}, {"fill", kInk}});
    }
    for (const MagnitudeBin& bin : axis_.bins()) {
      Point at = {rows.x + (bin.from + bin.to) / 2 + 0.36 * kBinFont, rows.bottom() + 5};
      svg_.text(at, kBinFont, bin.label,
                {{"class", "bin"}, {"text-anchor", "end"}, {"fill", kInk}, turned(at, -90)});
    }
  }

  void limits(const FormatStyle& style, const Box& rows) {
    FloatFormat format = find_format(style.format).format;
    auto limit = [&](double magnitude, const char* dash) {
      double x = rows.x + axis_.at(magnitude);
      draw_limit(svg_, {x, rows.y}, {x, rows.bottom()}, style.colour, dash);
    };
    limit(format.max(), style.dash);
    limit(format.min_normal(), style.dash);
    limit(format.min_subnormal(), kSubnormalDash);
  }

  void frame(const Box& rows) {
    svg_.element("rect", {{"class", "frame"},
                          {"x", rows.x},
                          {"y", rows.y},
                          {"width", rows.width},
                          {"height", rows.height},
                          {"fill", "none"},
                          {"stroke", kPartLine}});
  }

  std::span<const ScalePanel> panels_;
  std::vector<ScaleBlock> blocks_;
  double left_;
  MagnitudeAxis axis_;
  Svg svg_;
};

}  // namespace

std::string scales_figure(std::span<const ScalePanel> panels, size_t most_rows) {
  std::vector<ScaleBlock> blocks = scale_blocks(panels, most_rows);
  if (blocks.empty()) throw Error("figure: nothing to draw, expected at least one tensor");
  return ScalesPainter(panels, std::move(blocks)).paint();
}

}  // namespace sigma1
