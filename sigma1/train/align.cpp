#include "sigma1/train/align.h"

#include <cmath>
#include <map>

#include "sigma1/base/error.h"
#include "sigma1/ops/residual.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

double standard_deviation(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (float x : values) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  auto count = static_cast<double>(values.size());
  return std::sqrt(std::max(0.0, squares / count - (sum / count) * (sum / count)));
}

std::vector<int> find_joins(const Graph& graph) {
  std::vector<int> joins;
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    bool labelled = !node.attributes.get_or<std::string>("residual", "").empty();
    if (node.op == &weighted_add_op && labelled) joins.push_back(i);
  }
  return joins;
}

}  // namespace

std::vector<JoinScales> measure_joins(const TrainConfig& config, const ModelBatch& batch) {
  auto graph = std::make_shared<Graph>();
  build_model(*graph, config.model, config.size);
  return measure_joins(graph, static_cast<uint64_t>(config.seed), batch);
}

std::vector<JoinScales> measure_joins(const std::shared_ptr<Graph>& graph, uint64_t seed,
                                      const ModelBatch& batch) {
  std::vector<JoinScales> joins;
  for (int i : find_joins(*graph)) {
    const Node& node = graph->node(i);
    std::string skip_from = graph->node(node.inputs[0].node).name;
    joins.push_back(
        {node.name, skip_from, 0, 0, node.attributes.get<std::vector<double>>("weights")});
    graph->mark_output(node.name + ":skip", node.inputs[0]);
    graph->mark_output(node.name + ":branch", node.inputs[1]);
  }
  Store store;
  Program program(graph, store);
  initialise_parameters(store, *graph, seed);
  write_batch(store, batch);
  program.run(0);
  for (JoinScales& join : joins) {
    join.skip = standard_deviation(read_floats(program.output(join.join + ":skip")));
    join.branch = standard_deviation(read_floats(program.output(join.join + ":branch")));
  }
  return joins;
}

JoinWeights aligned_weights(const std::vector<JoinScales>& joins) {
  JoinWeights weights;
  for (const JoinScales& join : joins) {
    double skip = join.weights[0] * join.skip, branch = join.weights[1] * join.branch;
    double length = std::hypot(skip, branch);
    if (!std::isnormal(length)) {
      throw Error("align: {} has scales {} and {} in the plain model, which cannot be weighed",
                  join.join, join.skip, join.branch);
    }
    weights[join.join] = {skip / length, branch / length};
  }
  return weights;
}

// Where the target's tensors are κ times the reference's, its weights are the reference's over κ;
// the join then gives the reference's sum times the length that was divided out.
JoinWeights matched_weights(const std::vector<JoinScales>& reference,
                            const std::vector<JoinScales>& target) {
  if (reference.size() != target.size()) throw Bug("align: models of different joins");
  JoinWeights weights;
  std::map<std::string, double> ratio_of;  // join → its output over the reference's
  for (size_t i = 0; i < reference.size(); ++i) {
    const JoinScales &from = reference[i], &to = target[i];
    auto before = ratio_of.find(to.skip_from);
    double skip_ratio = before != ratio_of.end() ? before->second : to.skip / from.skip;
    double skip = from.weights[0] / skip_ratio;
    double branch = from.weights[1] * from.branch / to.branch;
    double length = std::hypot(skip, branch);
    weights[to.join] = {skip / length, branch / length};
    ratio_of[to.join] = 1 / length;
  }
  return weights;
}

}  // namespace sigma1
