#include "sigma1/report/scale_rows.h"

#include <algorithm>

#include "sigma1/report/heat_map.h"

namespace sigma1 {
namespace {

std::string part_of(const std::string& name) { return name.substr(0, name.find('/')); }

// In the order of the first panel; what only a later one has comes after its predecessor there.
std::vector<ScaleRow> rows_of(std::span<const ScalePanel> panels, TensorRole role) {
  std::vector<ScaleRow> rows;
  for (size_t panel = 0; panel < panels.size(); ++panel) {
    size_t next = 0;
    for (const TensorScale& tensor : panels[panel].tensors) {
      if (tensor.role != role) continue;
      auto fits = [&](const ScaleRow& row) {
        return row.name == tensor.name && !row.panels[panel];
      };
      auto row = std::ranges::find_if(rows, fits);
      if (row == rows.end()) {
        row = rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(next),
                          {tensor.name, std::vector<const TensorStats*>(panels.size())});
      }
      row->panels[panel] = &tensor.stats;
      next = static_cast<size_t>(row - rows.begin()) + 1;
    }
  }
  return rows;
}

// Keeps the first and the last rows: whole layers, where that costs no more than half of them.
void leave_out_middle(ScaleBlock& block, size_t most) {
  std::vector<ScaleRow>& rows = block.rows;
  if (most == 0 || rows.size() <= most) return;
  auto within_part = [&](size_t i) { return part_of(rows[i].name) == part_of(rows[i - 1].name); };
  size_t last = most / 2, first = most - last;
  size_t head = first, tail = rows.size() - last;
  while (head > 0 && within_part(head)) --head;
  while (tail < rows.size() && within_part(tail)) ++tail;
  if (2 * head < first) head = first;
  if (2 * (rows.size() - tail) < last) tail = rows.size() - last;
  block.left_out = tail - head;
  block.left_out_before = head;
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(head),
             rows.begin() + static_cast<std::ptrdiff_t>(tail));
}

}  // namespace

std::vector<ScaleBlock> scale_blocks(std::span<const ScalePanel> panels, size_t most_rows) {
  std::vector<ScaleBlock> blocks;
  for (TensorRole role : kTensorRoles) {
    ScaleBlock block{role, rows_of(panels, role)};
    if (block.rows.empty()) continue;
    leave_out_middle(block, most_rows);
    for (size_t i = 1; i < block.rows.size(); ++i) {
      block.rows[i].starts_part = part_of(block.rows[i].name) != part_of(block.rows[i - 1].name);
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

}  // namespace sigma1
