// A run without copies of weights, for comparing those that keep them with.
#pragma once

#include "sigma1/train/session.h"

namespace sigma1 {

// The steps of a session that has made none, by graphs in which every batch casts the weights. What
// the store is to begin with is the caller's business.
class CastingRun {
 public:
  CastingRun(const Session& session, const Corpus& corpus)
      : config_(session.config()),
        corpus_(corpus),
        store_(session.store().device()),
        gradient_step_(gradient_graph(config_, session.alignment(), store_.device())),
        update_step_(update_graph(config_, session.alignment())),
        gradients_(gradient_step_.graph, store_, gradient_step_.stored, seed()),
        update_(update_step_.graph, store_, update_step_.stored, seed()) {}

  std::vector<double> losses(int64_t steps) {
    std::vector<double> result;
    for (int64_t step = 0; step < steps; ++step) result.push_back(train_step(step));
    return result;
  }

  Store& store() { return store_; }

 private:
  uint64_t seed() const { return static_cast<uint64_t>(config_.seed); }

  double train_step(int64_t step) {
    store_.fill(kRate, static_cast<float>(rate_at(config_.resolved_schedule(), step)));
    if (store_.contains(kStepCount)) store_.fill(kStepCount, static_cast<float>(step + 1));
    double loss = 0;
    for (int64_t part = 0; part < config_.parts(); ++part) {
      if (part == 0 && config_.parts() > 1) clear_gradients();
      ModelBatch batch = step_batch(config_, corpus_, step, part);
      write_batch(store_, batch);
      gradients_.run(static_cast<uint64_t>(step * config_.parts() + part));
      loss += static_cast<double>(gradients_.scalar("loss")) * batch.loss_weight;
    }
    update_.run(static_cast<uint64_t>(step));
    return loss / static_cast<double>(config_.parts());
  }

  void clear_gradients() {
    for (Value parameter : gradient_step_.graph->parameters()) {
      store_.fill(gradient_name(gradient_step_.graph->node(parameter.node).name), 0);
    }
  }

  TrainConfig config_;
  const Corpus& corpus_;
  Store store_;
  StepGraph gradient_step_, update_step_;
  Program gradients_, update_;
};

}  // namespace sigma1
