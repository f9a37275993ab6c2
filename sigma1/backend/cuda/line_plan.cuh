// A line chain as its kernel sees it, planned once from the steps. Private to this folder.
#pragma once

#include <optional>

#include "sigma1/backend/cuda/instructions.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {

inline constexpr int kMostLineSteps = 16, kMostLineInputs = 12;
inline constexpr int64_t kWidestLine = 4096;

// Rows that a thread has at hand as codes: loads of all are on their way before the first is used.
// The first slot has what gradients of norms go over several times, the others all else.
inline constexpr int kLineSlots = 3;
// Rows of a block that writes them in both orientations: so many neighbours fill a sector.
inline constexpr int kTurnedLines = 32;

// Where a step finds a row: in a slot, or as what the step before left.
inline constexpr int kLineNone = -2, kLineCurrent = -1;

struct LineInput {
  void* data = nullptr;
  int64_t rows = 0;  // as many as there are, or fewer that repeat
};

enum class LineOp : int { pointwise, norm, norm_grad };

struct LineResult {
  void* data = nullptr;  // none where only the chain needs it
  Type type{};
  bool saturates = false;
  bool turns = false;
};

struct LineStep {
  LineOp op{};
  Opcode opcode{};
  float factor = 1, multiplier = 1, second = 1;
  bool centred = false;
  float eps = 0;
  View w{}, c{};                       // of a norm, without data where it has none
  float of_current = 1, of_other = 1;  // of a form's sum: what the last step left, and the input
  int x = kLineNone, y = kLineNone;    // y: or dy; the gradient's x is in the first slot
  int refills[kLineSlots] = {};        // the input that a slot gets after the step, or kLineNone
  bool ends = false;                   // an op: its result is rounded
  bool is_last = false;                // nobody reads the result here
  bool is_summed = false;              // the result, over all rows
  LineResult out;
};

inline constexpr int kMostFormInputs = 6;

// Sums, a norm, sums, a cast: what is known to the compiler of a chain that looks so.
struct LineForm {
  int before = 0, after = 0;  // sums
  LineOp norm{};              // pointwise: the chain does not look so

  bool operator==(const LineForm&) const = default;
};

// Those that have kernels: what Transformers have around norms before and behind residual sums.
inline constexpr LineForm kLineForms[] = {{0, 0, LineOp::norm},      {1, 0, LineOp::norm},
                                          {0, 0, LineOp::norm_grad}, {0, 1, LineOp::norm_grad},
                                          {1, 0, LineOp::norm_grad}, {1, 1, LineOp::norm_grad},
                                          {3, 0, LineOp::norm_grad}};
inline constexpr int kNarrowestForm = 520;

// Sums over all rows: of dy·x̂ and dy, which are gradients of a norm's vectors, and of a result.
inline constexpr int kLineSums = 3, kWeightSum = 0, kBiasSum = 1, kColumnSum = 2;

// A kernel's parameter.
struct LineCode {
  LineStep steps[kMostLineSteps];
  LineInput inputs[kMostLineInputs];
  LineInput form_inputs[kMostFormInputs];  // what is summed up, a gradient's x, what is added
  bool casts = false;                      // a form's last step does
  float share = 0;                         // of a form's row that a number is: 1/width
  int first_inputs[kLineSlots] = {};       // that the slots begin with, or kLineNone
  int step_count = 0, input_count = 0;
  int width = 0;
  int rows_of_block = 0;
  int longer_blocks = 0;  // the first, where there are sums: a turn more, or a row of each team
  int64_t rows = 0;
  uint8_t* turned = nullptr;  // of the result that is wanted in both orientations
  float* sums = nullptr;      // [blocks, kLineSums, width], where there are sums
};

struct LineShape {
  void (*kernel)(LineCode);
  int teams, threads;      // of a block
  size_t turn_bytes;       // of shared memory, where a result is wanted in both orientations
  int blocks_at_once = 1;  // of a multiprocessor
  size_t own_bytes = 0;    // of shared memory, before what is turned
};

struct LinePlan {
  LineCode code;
  Type type = Type::fp32;  // of all inputs; weights of norms may be fp32 anyway
  int turned_results = 0;
  bool has_sums = false;
  LineForm form;
};

// Fills in the form, where there is one, and what its kernels read; inputs are not in slots yet.
void find_form(LinePlan& plan);

// Whether its form has kernels, which need not interpret it.
bool has_form(const LinePlan& plan);

// Calls body.operator()<kForm>() with the form, where it has kernels.
template <size_t kFirst = 0, class Body>
void with_form(const LineForm& form, Body body) {
  if constexpr (kFirst < std::size(kLineForms)) {
    if (form == kLineForms[kFirst]) return body.template operator()<kLineForms[kFirst]>();
    with_form<kFirst + 1>(form, body);
  }
}

// Nothing where the steps do not fit. Sums over all rows stand behind all others.
std::optional<LinePlan> plan_lines(std::span<const ChainStep> steps);

}  // namespace sigma1::cuda
