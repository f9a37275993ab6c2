// Rows picked by index: of one table, or of each sequence of a batch.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef embedding_op, embedding_grad_op, gather_rows_op, gather_rows_grad_op;

// table[V, d] at ids[…] → […, d]
Value embedding(Value table, Value ids);
// x[batch, n, d] at rows[batch, k] → [batch, k, d]
Value gather_rows(Value x, Value rows);

}  // namespace sigma1
