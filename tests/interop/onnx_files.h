// Models as ONNX files beside inputs and the outputs that the reference computes of them.
#pragma once

#include <string>

namespace sigma1 {

// FOLDER/NAME.onnx and FOLDER/NAME.safetensors, whose tensors are inputs, and outputs as
// expected/….
void write_onnx_examples(const std::string& folder);

}  // namespace sigma1
