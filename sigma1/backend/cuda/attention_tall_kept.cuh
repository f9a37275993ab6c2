// What the launches of attention_kept_grad by tall tiles share; see attention_tall_kept.cu.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_kept.cuh"
#include "sigma1/backend/cuda/attention_tall_grad.cuh"

namespace sigma1::cuda {

// Workspace: by query, `shifts` (what takes a logit in units of log 2 to the logarithm of its
// probability times 2^14; −∞ for queries that do not exist) and `means` (Σ p·dp). By kWarpRows
// queries or keys, where a power of two is needed, the largest norms of rows of dy and v. By block,
// `sums` of a head's dq so far, and where heads are cut, `late_sums` of one that another block
// adds, once it is `done`. Heads begin at multiples of kTallRows queries.
struct KeptRooms {
  static constexpr int kMostOthers = 2;  // blocks that go on with a head
  float *shifts, *means, *sums, *late_sums, *dy_norms, *v_norms;
  unsigned* done;
  float logit_scale;  // of dot products, for logits in units of log 2
  int rows;           // of queries of a head
  int key_groups;     // of kWarpRows keys of a head
  int blocks;         // each goes through heads, one after the other
  bool cuts;
  int64_t bytes = 0;  // of all

  KeptRooms(const Attention& a, std::byte* workspace);
  __device__ int query_groups() const { return rows / kWarpRows; }
};

// Whether a launch of attention_grad, of what uses_tensor_cores takes, is for these kernels.
bool uses_tall_kept(const Launch& launch);
int64_t tall_kept_workspace(const Launch& launch);
// With what was kept beside it.
void run_tall_kept_grad(const Launch& launch, const KeptInputs& kept);

// The same, where outputs are parts of one tensor's rows; whether they can be.
bool gives_kept_codes(const Launch& launch);
void run_tall_kept_codes(const Launch& launch, const KeptInputs& kept, const KeptCodes& codes);

// Fills all but the sums; nothing is done.
void fill_kept_rooms(const Attention& a, const KeptInputs& kept, const KeptRooms& rooms);

}  // namespace sigma1::cuda
