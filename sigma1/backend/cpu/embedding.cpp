#include "sigma1/ops/embedding.h"

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/move.h"

namespace sigma1::cpu {
namespace {

// Indices into rows of d numbers: `picks` into each of several tables of `rows`. A lookup in one
// table is the case of a single one.
struct Picks {
  const Buffer& indices;
  int64_t rows, picks, d;

  int64_t count() const { return indices.count(); }
  int64_t all_rows() const { return count() / picks * rows; }
  int64_t row(int64_t i) const { return i / picks * rows + indices.indices()[i]; }

  // Before anything is written, and in order, so that the first wrong one is named.
  void check() const {
    for (int64_t i = 0; i < count(); ++i) {
      int32_t index = indices.indices()[i];
      if (index < 0 || index >= rows)
        throw Error("expected an index within [0, {}), got {}", rows, index);
    }
  }
};

void look_up(const Launch& launch, const Picks& picks) {
  picks.check();
  const Buffer& table = launch.in(0);
  int64_t d = picks.d;
  move(launch, 0, moves_bytes(launch, 0), [&](int64_t i) {
    return Piece{&table, picks.row(i / d) * d + i % d, d - i % d};
  });
}

void run_embedding(const Launch& launch) {
  const Shape& table = launch.in(0).shape;
  look_up(launch, {launch.in(1), table[0], launch.in(1).count(), table[1]});
}

void run_gather_rows(const Launch& launch) {
  const Shape& x = launch.in(0).shape;
  look_up(launch, {launch.in(1), x[1], launch.in(1).shape[1], x[2]});
}

// The picks sorted by row, those of a row in their order: row r's are order[start[r]] to
// order[start[r + 1] − 1].
struct PicksByRow {
  int32_t *start, *order;

  static int64_t bytes(const Picks& picks) {
    return (picks.all_rows() + 2 + picks.count()) * static_cast<int64_t>(sizeof(int32_t));
  }

  PicksByRow(const Picks& picks, std::byte* workspace)
      : start(reinterpret_cast<int32_t*>(workspace)), order(start + picks.all_rows() + 2) {
    // One place further on: the counts become starts, and filling moves each start to its end,
    // which is the start of the next.
    int32_t* next = start + 1;
    std::fill_n(start, picks.all_rows() + 2, 0);
    for (int64_t i = 0; i < picks.count(); ++i) ++next[picks.row(i) + 1];
    for (int64_t row = 0; row < picks.all_rows(); ++row) next[row + 1] += next[row];
    for (int64_t i = 0; i < picks.count(); ++i) {
      order[next[picks.row(i)]++] = static_cast<int32_t>(i);
    }
  }

  std::span<const int32_t> of(int64_t row) const {
    return {order + start[row], static_cast<size_t>(start[row + 1] - start[row])};
  }
};

// Σ over the picks of their gradients' columns [first, first + count).
void sum_picks(const Buffer& dy, std::span<const int32_t> picks, int64_t d, int64_t first,
               int64_t count, float* to, float factor) {
  auto piece = [&](int32_t pick) { return Piece{&dy, pick * d + first, count}; };
  if (picks.empty()) {
    std::fill_n(to, count, 0.0f);
    return;
  }
  copy_numbers(piece(picks[0]), count, to, picks.size() == 1 ? factor : 1);
  if (picks.size() == 1) return;
  for (int32_t pick : picks.subspan(1)) {
    float room[kTile];
    vectors().add_scaled(load(dy, piece(pick).first, count, room), to, count, 1);
  }
  vectors().scale(to, to, count, factor);
}

void sum_by_row(const Launch& launch, const Picks& picks) {
  picks.check();
  const Buffer& out = launch.out();
  PicksByRow by_row(picks, launch.workspace.data());
  int64_t d = picks.d;
  for_each_tile(out.count(), [&](int64_t first, int64_t count) {
    float room[kTile];
    float* to = target(out, first, room);
    for (int64_t done = 0; done < count;) {
      int64_t row = (first + done) / d, column = (first + done) % d;
      int64_t n = std::min(d - column, count - done);
      sum_picks(launch.in(0), by_row.of(row), d, column, n, to + done, launch.factor());
      done += n;
    }
    store(out, first, count, to, launch.random[0]);
  });
}

Picks picks_of_table(const Launch& launch) {
  const Buffer& ids = launch.in(1);
  return {ids, launch.attr<int64_t>("rows"), ids.count(), launch.in(0).shape.back()};
}

Picks picks_of_each(const Launch& launch) {
  const Buffer& rows = launch.in(1);
  return {rows, launch.attr<int64_t>("rows"), rows.shape[1], launch.in(0).shape.back()};
}

template <Picks (*picks_of)(const Launch&)>
void run_grad(const Launch& launch) {
  sum_by_row(launch, picks_of(launch));
}

template <Picks (*picks_of)(const Launch&)>
int64_t grad_workspace(const Launch& launch) {
  return PicksByRow::bytes(picks_of(launch));
}

constexpr Kernel kKernels[] = {
    {&embedding_op, run_embedding},
    {&embedding_grad_op, run_grad<picks_of_table>, grad_workspace<picks_of_table>},
    {&gather_rows_op, run_gather_rows},
    {&gather_rows_grad_op, run_grad<picks_of_each>, grad_workspace<picks_of_each>}};

}  // namespace

std::span<const Kernel> embedding_kernels() { return kKernels; }

}  // namespace sigma1::cpu
