#include "sigma1/analysis/potentials.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <queue>

#include "sigma1/analysis/gradient_edges.h"

namespace sigma1 {
namespace {

// Factors are products of a few roots; what rounding adds to a long cycle stays far below this.
constexpr double kTolerance = 1e-9;

class Walk {
 public:
  explicit Walk(const Graph& graph)
      : graph_(graph),
        edges_(graph),
        log_potential_(static_cast<size_t>(graph.size())),
        arrived_by_(log_potential_.size(), kUnseen),
        touching_(log_potential_.size()) {
    for (size_t i = 0; i < edges_.edges().size(); ++i) {
      const Edge& edge = edges_.edges()[i];
      touching_[static_cast<size_t>(edge.from)].push_back(static_cast<int>(i));
      touching_[static_cast<size_t>(edge.to)].push_back(static_cast<int>(i));
    }
  }

  std::vector<double> run() {
    for (int root = 0; root < graph_.size(); ++root) {
      if (arrived_by_[static_cast<size_t>(root)] == kUnseen) spread_from(root);
    }
    std::vector<double> potentials;
    for (double log_s : log_potential_) potentials.push_back(std::exp(log_s));
    return potentials;
  }

 private:
  static constexpr int kUnseen = -2, kRoot = -1;

  // log s_u − log s_v along the edge u → v.
  double step(const Edge& edge) const {
    const Node& consumer = graph_.node(edge.to);
    return std::log(consumer.beta[static_cast<size_t>(edge.input)]) - std::log(consumer.alpha);
  }

  int other_end(const Edge& edge, int node) const {
    return edge.from == node ? edge.to : edge.from;
  }

  void spread_from(int root) {
    std::queue<int> frontier({root});
    arrived_by_[static_cast<size_t>(root)] = kRoot;
    while (!frontier.empty()) {
      int here = frontier.front();
      frontier.pop();
      for (int index : touching_[static_cast<size_t>(here)]) {
        const Edge& edge = edges_.edges()[static_cast<size_t>(index)];
        int there = other_end(edge, here);
        double sign = edge.to == here ? 1 : -1;
        double expected = log_potential_[static_cast<size_t>(here)] + sign * step(edge);
        double& log_s = log_potential_[static_cast<size_t>(there)];
        if (arrived_by_[static_cast<size_t>(there)] == kUnseen) {
          log_s = expected;
          arrived_by_[static_cast<size_t>(there)] = index;
          frontier.push(there);
        } else if (!(std::fabs(log_s - expected) <= kTolerance)) {
          refuse(index, std::exp(expected - log_s));
        }
      }
    }
  }

  std::vector<int> path_to_root(int node) const {
    std::vector<int> path{node};
    for (int by; (by = arrived_by_[static_cast<size_t>(path.back())]) != kRoot;) {
      path.push_back(other_end(edges_.edges()[static_cast<size_t>(by)], path.back()));
    }
    return path;
  }

  // The edge that does not fit closes a cycle with the walk's paths to its two ends.
  [[noreturn]] void refuse(int closing_edge, double product) const {
    const Edge& edge = edges_.edges()[static_cast<size_t>(closing_edge)];
    std::vector<int> one = path_to_root(edge.from), other = path_to_root(edge.to);
    while (one.size() > 1 && other.size() > 1 && one[one.size() - 2] == other[other.size() - 2]) {
      one.pop_back();
      other.pop_back();
    }
    other.pop_back();
    std::vector<int> cycle(one.rbegin(), one.rend());
    cycle.insert(cycle.end(), other.begin(), other.end());
    std::vector<std::string> names;
    for (int node : cycle) {
      names.push_back(fmt::format("{} ({})", graph_.node(node).name, graph_.node(node).op->name));
    }
    throw Error(
        "gradients would be wrong: around the cycle {} the product of beta/alpha should be 1 "
        "and is {:.6g} (or {:.6g}, taken the other way round)",
        fmt::join(names, " - "), product, 1 / product);
  }

  const Graph& graph_;
  GradientEdges edges_;
  std::vector<double> log_potential_;
  std::vector<int> arrived_by_;
  std::vector<std::vector<int>> touching_;
};

}  // namespace

std::vector<double> solve_potentials(const Graph& graph) { return Walk(graph).run(); }

void check_gradients_valid(const Graph& graph) { solve_potentials(graph); }

}  // namespace sigma1
