// Changes of structure: a graph only grows, so it is written anew, node by node, and takes the
// place of the old one. Values held from before are void; outputs and nodes keep their names.
#pragma once

#include <functional>

#include "sigma1/graph/graph.h"

namespace sigma1 {

class Rewriter {
 public:
  Rewriter(const Graph& old, Graph& fresh) : old_(old), fresh_(fresh) {}

  const Graph& old() const { return old_; }
  Graph& fresh() const { return fresh_; }
  // What stands for an old value in the new graph.
  Value now(Value old_value) const;
  std::vector<Value> now(const std::vector<Value>& old_values) const;
  // The old node as it was, on what stands for its inputs, or on these.
  std::vector<Value> copy(int node);
  std::vector<Value> copy(int node, const std::vector<Value>& inputs, const std::string& name);

 private:
  friend void rewrite(Graph&,
                      const std::function<std::vector<Value>(Rewriter&, int)>&);  // fills values_

  const Graph& old_;
  Graph& fresh_;
  std::vector<std::vector<Value>> values_;
};

// `rule` appends to the new graph what stands for one old node and gives its outputs.
void rewrite(Graph& graph, const std::function<std::vector<Value>(Rewriter&, int node)>& rule);

// Leaves out what no output needs. Inputs and parameters stay: they are the graph's signature.
void remove_dead_nodes(Graph& graph);

// How often each output of each node is read, a marked output counting as one reader.
std::vector<std::vector<int>> count_uses(const Graph& graph);

}  // namespace sigma1
