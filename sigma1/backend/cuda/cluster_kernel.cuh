// All that the source of a cluster chain includes. See cluster_block.cuh for who includes this.
#pragma once

#include "sigma1/backend/cuda/cluster_attention.cuh"
#include "sigma1/backend/cuda/cluster_conv.cuh"
#include "sigma1/backend/cuda/cluster_steps.cuh"
