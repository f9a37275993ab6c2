#include "sigma1/backend/cuda/grouping.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/attention_kept_codes.cuh"
#include "sigma1/backend/cuda/attention_parts.cuh"
#include "sigma1/backend/cuda/bundle.cuh"
#include "sigma1/backend/cuda/chain.cuh"
#include "sigma1/backend/cuda/cluster_chain.cuh"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/backend/cuda/line_sums.cuh"
#include "sigma1/backend/cuda/row_chain.cuh"
#include "sigma1/backend/cuda/row_local.cuh"
#include "sigma1/backend/node_call.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1::cuda {
namespace {

bool has_many_rows(std::span<const ChainStep> steps) {
  const Buffer& out = steps.front().launch.out();
  return cuda::has_many_rows(out.count() / out.shape.back());
}

// Asks kernels about nodes of one graph.
class Advisor {
 public:
  Advisor(const Graph& graph, const ProductChoices& choices)
      : graph_(graph), choices_(choices), views_(find_views(graph)) {}

  bool reaches_rows(const Node& node) const { return is_reaching(*node.op); }

  // Attention of parts of rows has kernels that step over the rest.
  bool begins_layer(const Node& node) const {
    bool takes_parts = node.op == &attention_op && attention_takes_parts(graph_, index(node), 0);
    return choices_.whole_layers && !takes_parts;
  }

  int64_t local_rows(const Node& node) const {
    if (node.outputs.size() != 1 || node.inputs.empty()) return 0;
    const TensorType& type = node.outputs.front();
    if (type.shape.empty() || type.count() == 0) return 0;
    if (is_reaching(*node.op) && !begins_layer(node)) return 0;
    NodeCall call(graph_, index(node));
    int64_t rows = type.rows();
    auto is_local = cuda::has_many_rows(rows) ? is_line_local : is_row_local;
    return is_local(*node.op, call.launch()) ? rows : 0;
  }

  bool rows_fit(const std::vector<int>& nodes) const {
    Steps of(graph_, views_, nodes);
    // Clusters alone run what reaches.
    if (std::ranges::any_of(of.steps, [](auto& step) { return is_reaching(*step.op); })) {
      of.pretend_memory(graph_, views_, nodes);
      return fits_cluster(of.steps);
    }
    return has_many_rows(of.steps) ? fits_lines(of.steps) : fits_rows(of.steps);
  }

  bool takes_sum(const NodeGroup& group, int sum) const {
    if (group.kind == NodeGroup::Kind::rows) return lines_take_sum(group.nodes, sum);
    bool is_joined = group.kind == NodeGroup::Kind::joined;
    if (!is_joined && group.kind != NodeGroup::Kind::pointwise) return false;
    std::vector<int> nodes = group.nodes;
    nodes.push_back(sum);
    Steps of(graph_, views_, nodes);
    auto takes = is_joined ? codes_take_sum : cuda::takes_sum;
    return takes(std::span(of.steps).first(group.nodes.size()), of.steps.back());
  }

  bool runs_joined(const std::vector<int>& nodes) const {
    return is_codes_chain(Steps(graph_, views_, nodes).steps);
  }

  int bundle_kind(const Node& node) const {
    NodeCall call(graph_, index(node));
    return static_cast<int>(cuda::bundle_kind(*node.op, call.launch()));
  }

 private:
  struct Steps {
    std::vector<std::unique_ptr<NodeCall>> calls;  // that the steps point into
    std::vector<ChainStep> steps;

    // All results are stored, each value has an address of its own: what fits then does so later.
    void pretend_memory(const Graph& graph, const std::vector<bool>& views,
                        const std::vector<int>& nodes) {
      auto address = [](int node) {
        return reinterpret_cast<std::byte*>(16 * (intptr_t{node} + 1));
      };
      for (size_t i = 0; i < nodes.size(); ++i) {
        NodeCall& call = *calls[i];
        call.outputs.front().data = address(nodes[i]);
        for (size_t k = 0; k < call.inputs.size(); ++k) {
          Value from = behind_views(graph, views, call.node->inputs[k]);
          call.inputs[k].data = address(from.node) + from.output;
        }
      }
    }

    Steps(const Graph& graph, const std::vector<bool>& views, const std::vector<int>& nodes) {
      for (int each : nodes) {
        const NodeCall& call = *calls.emplace_back(std::make_unique<NodeCall>(graph, each));
        steps.push_back(
            {call.node->op, call.launch(), producers_among(graph, views, nodes, *call.node)});
      }
    }
  };

  // Buffers tell what of a graph is the same only once they have memory.
  bool sums_rows_of(const Node& norm, const Node& sum) const {
    auto same = [&](Value a, Value b) {
      a = behind_views(graph_, views_, a), b = behind_views(graph_, views_, b);
      return a.node == b.node && a.output == b.output;
    };
    return is_norm_grad(*norm.op) && same(sum.inputs.front(), norm.inputs.front()) &&
           same(sum.inputs.back(), norm.inputs.back());
  }

  bool lines_take_sum(std::vector<int> nodes, int sum) const {
    const Node& node = graph_.node(sum);
    if (!is_line_sum(*node.op)) return false;
    if (!cuda::has_many_rows(graph_.node(nodes.front()).outputs.front().rows())) return false;
    bool knows_inputs = node.inputs.size() == 1 || std::ranges::any_of(nodes, [&](int each) {
                          return sums_rows_of(graph_.node(each), node);
                        });
    nodes.push_back(sum);
    return knows_inputs && rows_fit(nodes);
  }

  int index(const Node& node) const { return static_cast<int>(&node - graph_.nodes().data()); }

  const Graph& graph_;
  ProductChoices choices_;
  std::vector<bool> views_;
};

std::unique_ptr<Chain> make_row_chain(std::vector<ChainStep> steps) {
  if (fits_cluster(steps)) return std::make_unique<ClusterChain>(steps);
  return std::make_unique<RowChain>(std::move(steps));
}

}  // namespace

Grouping grouping(const Graph& graph, const ProductChoices& choices) {
  auto advisor = std::make_shared<Advisor>(graph, choices);
  Grouping result{
      .is_pointwise =
          [](const Node& node) {
            return is_pointwise(*node.op) && node.outputs.front().kind == Kind::real;
          },
      .local_rows = [=](const Node& node) { return advisor->local_rows(node); },
      .reaches_rows = [=](const Node& node) { return advisor->reaches_rows(node); },
      .rows_fit = [=](const std::vector<int>& nodes) { return advisor->rows_fit(nodes); },
      .bundle_kind = [=](const Node& node) { return advisor->bundle_kind(node); },
      .bundle_takes =
          [](int kind, const Node& cast) {
            return takes_casts(static_cast<BundleKind>(kind)) && cast.op == &identity_op;
          },
      .takes_sum = [=](const NodeGroup& group, int sum) { return advisor->takes_sum(group, sum); }};
  if (choices.casts_in_attention) {
    result.runs_joined = [=](const std::vector<int>& nodes) { return advisor->runs_joined(nodes); };
  }
  return result;
}

std::unique_ptr<Chain> make_chain(NodeGroup::Kind kind, std::vector<ChainStep> steps) {
  switch (kind) {
    case NodeGroup::Kind::rows:
      if (has_many_rows(steps)) return std::make_unique<LineChain>(steps);
      return make_row_chain(std::move(steps));
    case NodeGroup::Kind::joined:
      return std::make_unique<KeptCodesChain>(std::move(steps));
    case NodeGroup::Kind::bundle:
      return std::make_unique<Bundle>(std::move(steps));
    default:
      return std::make_unique<PointwiseChain>(std::move(steps));
  }
}

}  // namespace sigma1::cuda
