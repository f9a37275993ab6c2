// Where the swapped form of a row chain has its block's rows: in panels that tensor cores read
// (wgmma.cuh), of 64 columns of all rows each. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_values.cuh"

namespace sigma1::cuda {

constexpr int kPanelBytes = kSwappedRows * kPanelColumns * 2;

// Slots begin at multiples of 1024 bytes, so that the permutation is one of addresses. Two
// neighbours of 16 bytes in rows of different parity are in different banks, and so are the 128
// bytes of a row.
struct PanelBlock : RowBlock {
  __device__ std::byte* at(const Slot& slot, RowPlace place) const {
    auto row = static_cast<uint32_t>(place.row), column = static_cast<uint32_t>(place.column);
    uint32_t panel = column / kPanelColumns, in_row = column % kPanelColumns * 2;
    return slots + slot.offset + panel * kPanelBytes + row * 128 + (in_row ^ row % 8 * 16);
  }
};

}  // namespace sigma1::cuda
