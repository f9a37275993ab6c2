#include "sigma1/train/initial_weights.h"

#include "sigma1/analysis/parameter_factors.h"
#include "sigma1/base/error.h"
#include "sigma1/train/plain_model.h"

namespace sigma1 {
namespace {

// Two models that share an encoder meet in the plain one, where factors are nobody's.
std::map<std::string, double> factors_between(const StoredModel& from, const TrainConfig& to,
                                              const Alignment& alignment) {
  std::shared_ptr<Graph> source = forward_graph(from.config, from.alignment);
  std::shared_ptr<Graph> target = forward_graph(to, alignment);
  if (from.config.model == to.model) return parameter_factors(*source, *target);
  std::map<std::string, double> out =
      parameter_factors(*source, *forward_graph(plain_config(from.config), {}));
  std::map<std::string, double> in =
      parameter_factors(*forward_graph(plain_config(to), {}), *target);
  std::map<std::string, double> both;
  for (const auto& [name, factor] : out) {
    if (in.contains(name)) both[name] = factor * in[name];
  }
  return both;
}

// Of as many ids, or padded to as many, another vocabulary would give words each other's rows.
void check_vocabulary(const Vocabulary& from, const Vocabulary& to, const std::string& init) {
  if (from == to) return;
  throw Error("init: expected the vocabulary of {}, {} {}s, got another of {} {}s", init,
              from.known(), from.token_name(), to.known(), to.token_name());
}

void check_shapes(const StoredModel& from, const TrainConfig& to) {
  auto shapes_of = [](const TrainConfig& config) {
    std::map<std::string, Shape> shapes;
    std::shared_ptr<Graph> graph = forward_graph(config, {});
    for (Value parameter : graph->parameters())
      shapes[graph->node(parameter.node).name] = parameter.shape();
    return shapes;
  };
  std::map<std::string, Shape> given = shapes_of(from.config);
  bool any = false;
  for (const auto& [name, shape] : shapes_of(to)) {
    auto found = given.find(name);
    if (found == given.end()) continue;
    any = true;
    if (found->second != shape)
      throw Error("init: {}: expected {}, got {} in {}", name, to_string(shape),
                  to_string(found->second), to.init);
  }
  if (!any) throw Error("init: expected weights of this model, got none in {}", to.init);
  if (from.config.size.depth != to.size.depth)
    throw Error("init: expected the {} layers of {}, got depth {}", from.config.size.depth, to.init,
                to.size.depth);
}

}  // namespace

InitialWeights::InitialWeights(const TrainConfig& config, const Vocabulary& vocabulary)
    : from_(read_model(find_checkpoint(config.init))) {
  check_vocabulary(from_.vocabulary, vocabulary, config.init);
  check_shapes(from_, config);
  factors_ = factors_between(from_, config, from_.alignment);
}

void InitialWeights::write(Store& store, const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    auto factor = factors_.find(name);
    if (factor == factors_.end()) continue;
    std::vector<float> numbers = from_.parameters.at(name);
    for (float& number : numbers) number = static_cast<float>(factor->second * number);
    store.write(name, numbers);
  }
}

}  // namespace sigma1
