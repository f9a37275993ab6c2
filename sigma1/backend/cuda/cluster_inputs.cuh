// What a cluster chain's kernel is given: tensors and factors, and what its blocks send for from
// memory. Private to this folder.
#pragma once

#include <map>

#include "sigma1/backend/cuda/cluster_phases.cuh"
#include "sigma1/backend/cuda/cluster_source.cuh"
#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1::cuda {

// As a type of the kernel's source.
const char* element_of(Type type);

class ClusterInputs {
 public:
  // All are kept by reference.
  ClusterInputs(const ClusterShape& shape, ClusterPhases& phases, ClusterSource& source)
      : shape_(shape), phases_(phases), source_(source) {}

  // Numbers of the kernel's parameter.
  std::string memory(const std::byte* place);
  std::string factor(float value);
  std::string times(float value, const std::string& what);

  // Places of a tensor's rows: of the block's own, of all, and of the block's columns of all.
  int own_rows(const Buffer& x);
  int all_rows(const Buffer& x);
  int columns(const Buffer& x);
  // Of the block's columns of other rows than the cluster's: `how` brings them, the name of a call
  // and its numbers behind <Block, the tensor's width; one tensor is brought once in each way.
  int other_rows(const Buffer& x, int rows, std::string_view call, std::string_view numbers);

  struct Vector {
    int place;
    const char* type;
  };
  Vector vector(const Buffer& x);

  struct Matrix {
    int place, stride;
  };
  // The block's slice of the terms or of the columns of W[depth, width], or W[width, depth].
  Matrix matrix(const Buffer& w, int depth, int width, bool transposed, bool of_terms);

  int rows_bytes(int columns) const { return shape_.rows * columns * 2; }
  int own_rows_bytes(int columns) const { return rows_bytes(columns) / shape_.ranks; }
  int slice(int columns) const { return slice_of(columns, shape_.ranks); }

 private:
  int copied(int bytes, const std::string& what, const Buffer& buffer);

  const ClusterShape& shape_;
  ClusterPhases& phases_;
  ClusterSource& source_;
  std::map<std::pair<std::string, const std::byte*>, int> copied_;
};

}  // namespace sigma1::cuda
