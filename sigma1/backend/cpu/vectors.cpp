#include "sigma1/backend/cpu/vectors.h"

#include "sigma1/base/error.h"
#include "sigma1/numerics/convert.h"

namespace sigma1::cpu {

const VectorKernels& vectors() {
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return vector_kernels_avx512;
    case InstructionSet::avx2:
      return vector_kernels_avx2;
    case InstructionSet::baseline:
      return vector_kernels_baseline;
  }
  throw Bug("unknown InstructionSet");
}

}  // namespace sigma1::cpu
