// The computational graph: nodes in topological order, each a scaled op f*(x, α, β). Append-only:
// passes may change factors and attributes, and rebuild structure into a new graph.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sigma1/graph/op.h"
#include "sigma1/numerics/quantize.h"

namespace sigma1 {

struct Node {
  const OpDef* op = nullptr;
  std::string name;  // path in the model, unique: "block0/ffn/matmul"
  std::vector<Value> inputs;
  Attributes attributes;
  std::vector<TensorType> outputs;
  double alpha = 1;          // output × α
  std::vector<double> beta;  // gradient of input i × βᵢ
  bool pinned = false;       // factors set on purpose: the scaling passes leave them
  // What lowering adds. Factors folded in from nodes that only scaled, per output: none when empty.
  std::vector<double> output_factors;
  // How each output is stored: all fp32 when empty.
  std::vector<Cast> storage;
  bool again = false;  // computed a second time, late, so that nothing was kept meanwhile

  double factor(size_t output) const {
    return output_factors.empty() ? alpha : alpha * output_factors[output];
  }

  std::vector<TensorType> input_types() const;
};

// The name of the random numbers by which an output is rounded stochastically.
std::string storage_stream(const Node& node, size_t output);

// How a parameter starts out in the plain model: its distribution and standard deviation.
struct Init {
  std::string distribution = "normal";  // normal, uniform, constant
  double std_dev = 1;
  double mean = 0;
};

class Graph {
 public:
  Graph() = default;
  Graph(Graph&&) = delete;  // values point here
  Graph& operator=(Graph&&) = delete;

  // A real input carries a gradient unless told otherwise; an index never does.
  Value input(const std::string& name, TensorType type, bool with_gradient = true);
  Value parameter(const std::string& name, Shape shape, const Init& init);
  Value constant(Shape shape, double value);

  // Appends a node. Throws Error, naming op and path, when the inputs do not fit.
  // The node is called `name`, or after its op, below the current path.
  std::vector<Value> append(const OpDef& op, std::vector<Value> inputs, Attributes attributes = {},
                            std::string_view name = {});
  Value append_one(const OpDef& op, std::vector<Value> inputs, Attributes attributes = {}) {
    return append(op, std::move(inputs), std::move(attributes)).front();
  }

  void mark_output(const std::string& name, Value value);
  // Throws Error when no output has that name.
  void replace_output(const std::string& name, Value value);

  // Forgets the marks of all other outputs.
  void keep_outputs(const std::vector<std::string>& names);

  // Becomes what `other` is, which is left empty: the end of a rewrite.
  void take(Graph& other);

  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int index) const { return nodes_[static_cast<size_t>(index)]; }
  Node& node(int index) { return nodes_[static_cast<size_t>(index)]; }
  std::span<const Node> nodes() const { return nodes_; }
  const std::vector<std::pair<std::string, Value>>& outputs() const { return outputs_; }
  Value output(const std::string& name) const;
  std::vector<Value> parameters() const;

  // Nodes appended while a Path lives carry it as a prefix; paths nest.
  class Path {
   public:
    Path(Graph& graph, const std::string& part);
    ~Path();
    Path(const Path&) = delete;
    Path& operator=(const Path&) = delete;

   private:
    Graph& graph_;
    size_t outer_length_;
  };

 private:
  std::string unique_name(std::string_view wanted);

  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, Value>> outputs_;
  std::string path_;
  std::map<std::string, int, std::less<>> names_;
};

// What a gradient rule sees: the node's inputs, settings, and the gradients of its outputs.
class GradView {
 public:
  GradView(Graph& graph, int node, std::vector<Value> output_gradients)
      : graph_(graph), node_(node), output_gradients_(std::move(output_gradients)) {}

  Graph& graph() const { return graph_; }
  Value x(size_t i) const { return graph_.node(node_).inputs[i]; }
  size_t input_count() const { return graph_.node(node_).inputs.size(); }
  // The gradient of an output; zeros when nothing reads that output.
  Value dy(size_t output = 0) const;
  // By value: emitting a node may move the one whose attribute this is.
  template <class T>
  T attr(std::string_view name) const {
    return graph_.node(node_).attributes.get<T>(name);
  }
  const Attributes attributes() const { return graph_.node(node_).attributes; }

 private:
  Graph& graph_;
  int node_;
  std::vector<Value> output_gradients_;
};

}  // namespace sigma1
