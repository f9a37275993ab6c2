#include "sigma1/train/underflow.h"

#include <algorithm>
#include <map>

#include "sigma1/passes/differentiate.h"

namespace sigma1 {
namespace {

struct Zeros {
  int64_t zeros = 0, count = 0;
};

// A cast is held to the tensor it casts.
std::string base_name(const std::string& name) {
  size_t at = name.rfind("/as_");
  return at == std::string::npos ? name : name.substr(0, at);
}

// The worst of each gradient tensor and its casts, by name.
std::map<std::string, Zeros> count_zeros(const TrainConfig& config, const Session& session,
                                         const ModelBatch& batch) {
  Store store;
  StepGraph graph = gradient_graph(config, session.alignment(), store.device());
  Program program(graph.graph, store, graph.stored);
  session.copy_parameters(*graph.graph, store);
  write_batch(store, batch);
  std::string seed(kGradientSeed);
  if (store.contains(seed)) {
    store.fill(seed, static_cast<float>(session.loss_scaler().scale));
  }
  std::map<std::string, Zeros> found;
  program.run(0, [&](const Node& node, size_t output, const Buffer& buffer) {
    if (output > 0 || !node.name.starts_with("grad/")) return;
    std::vector<float> values = read_floats(buffer);
    auto zeros = static_cast<int64_t>(std::ranges::count(values, 0.0f));
    Zeros& entry = found[base_name(node.name)];
    if (zeros >= entry.zeros) entry = {zeros, buffer.count()};
  });
  return found;
}

}  // namespace

TensorUnderflow Underflow::worst() const {
  TensorUnderflow result;
  for (const TensorUnderflow& each : tensors) {
    if (each.lost > result.lost) result = each;
  }
  return result;
}

Underflow measure_underflow(const Session& session, const ModelBatch& batch) {
  TrainConfig exact = session.config();
  exact.precision = "fp32";
  exact.activations = exact.weights = exact.gradients = exact.matmul = exact.matmul_overrides = "";
  if (Method::parse(exact.method).kind == Method::Kind::per_tensor) exact.method = "none";
  std::map<std::string, Zeros> there = count_zeros(exact, session, batch);
  Underflow result;
  double lost = 0, all = 0;
  for (const auto& [name, here] : count_zeros(session.config(), session, batch)) {
    auto found = there.find(name);
    if (found == there.end() || found->second.count != here.count) continue;
    auto non_zero = static_cast<double>(here.count - found->second.zeros);
    auto more = static_cast<double>(std::max<int64_t>(0, here.zeros - found->second.zeros));
    result.tensors.push_back({name, non_zero > 0 ? more / non_zero : 0, here.count});
    lost += more;
    all += non_zero;
  }
  result.lost = all > 0 ? lost / all : 0;
  return result;
}

}  // namespace sigma1
