// Convolution on tensor cores, for 16-bit numbers in groups of multiples of 16 channels, without
// stride or dilation: the taps of a tile of rows are products of shifted rows in shared memory.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/ops/conv.h"

namespace sigma1::cuda {

// Whether these factors of a convolution, or of a gradient of it, can be multiplied so.
bool suits_tensor_cores(const ConvDims& d, const View& a, const View& b);

// y from x and w; bias without data where there is none.
void tensor_conv1d(const ConvDims& d, const View& x, const View& w, const View& bias, const View& y,
                   float factor);
// dx from dy and w.
void tensor_conv1d_grad_input(const ConvDims& d, const View& dy, const View& w, const View& dx,
                              float factor);
// Sums of w's gradient over so many pieces of the rows, one after the other from `chunks` on.
int64_t tensor_weight_chunks(const ConvDims& d);
void tensor_conv1d_grad_weight(const ConvDims& d, const View& x, const View& dy, float* chunks);

}  // namespace sigma1::cuda
