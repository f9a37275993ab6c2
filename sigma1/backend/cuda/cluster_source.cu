#include "sigma1/backend/cuda/cluster_source.cuh"

#include <fmt/format.h>

#include <map>
#include <set>

#include "sigma1/backend/cuda/cluster_forms.cuh"
#include "sigma1/backend/cuda/cluster_pointwise.cuh"
#include "sigma1/backend/cuda/cluster_reach.cuh"
#include "sigma1/backend/cuda/row_local.cuh"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/norm.h"

namespace sigma1::cuda {
namespace {

// A thread may keep so many terms of a row in registers.
constexpr int kMostKeptTerms = 128;

bool is_by_row(const ChainStep& step, size_t i) {
  return is_row_input(*step.op, i, step.launch.inputs.size());
}
int producer(const ChainStep& step, size_t i) {
  return step.producer.empty() ? -1 : step.producer[i];
}
int width(const Buffer& buffer) { return static_cast<int>(width_of(buffer)); }

const Buffer* bias_of(const ChainStep& step) {
  bool has_bias = step.op != &attention_op && step.launch.inputs.size() > 2;
  return has_bias ? &step.launch.in(2) : nullptr;
}

// Other rows than the cluster's are those of memory.
bool reaches_into_memory(const ChainStep& step, const ClusterShape& shape) {
  for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
    if (producer(step, i) >= 0) return false;
  }
  return can_reach(step, shape);
}

// Rows of one format of 16 bits, vectors of these or fp32, and nothing but rows that is computed
// here.
bool go_together(std::span<const ChainStep> steps, const ClusterShape& shape) {
  if (common_type(steps) == Type::fp32) return false;
  auto rows_of = [](const Launch& launch) { return launch.out().count() / width_of(launch.out()); };
  for (const ChainStep& step : steps) {
    if (rows_of(step.launch) != rows_of(steps.front().launch)) return false;
    if (is_reaching(*step.op) && !reaches_into_memory(step, shape)) return false;
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      if (is_by_row(step, i)) continue;
      Type type = *plain_type(step.launch.in(i));
      bool is_known = type == Type::fp32 || type == Type::fp16 || type == Type::bf16;
      if (producer(step, i) >= 0 || !is_known) return false;
    }
  }
  return true;
}

class Writer {
 public:
  // `ahead`: whether products of memory are multiplied before all else, so that none waits for
  // another, which takes more room. `as_stored`: whether columns have a place as if they were
  // stored, so that what fits does so whatever is stored.
  Writer(std::span<const ChainStep> steps, const ClusterShape& shape, bool ahead, bool as_stored)
      : steps_(steps),
        shape_(shape),
        ahead_(ahead),
        as_stored_(as_stored),
        forms_(forms_of(steps, shape.ranks)),
        values_(steps.size()),
        element_(element_of(common_type(steps))) {}

  std::optional<ClusterSource> write() {
    for (size_t s = 0; s < steps_.size(); ++s) write_step(s);
    if (!phases_.end()) return std::nullopt;
    if (source_.factors.empty()) inputs_.factor(1);  // an array has a length
    source_.shared_bytes = phases_.shared_bytes();
    source_.text = text();
    return std::move(source_);
  }

 private:
  using Sent = ClusterPhases::Sent;
  // Where what a step computed is for others.
  struct Value {
    Sent rows, all;
    int slice = -1, slice_phase = -1;
  };

  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    phases_.line(format, std::forward<Arguments>(arguments)...);
  }

  std::string text() const {
    return fmt::format(
        R"(#include "sigma1/backend/cuda/cluster_kernel.cuh"
using namespace sigma1::cuda;
using Block = ClusterBlock<{}, {}, {}>;
template <int kWidth>
using Rows = ByRows<Block, kWidth>;
template <int kWidth, int kBlocks = Block::kRanks>
using Columns = ByColumns<Block, kWidth, kBlocks>;
{}extern "C" __global__ void __cluster_dims__(Block::kRanks) __launch_bounds__(Block::kThreads, 1)
    cluster_chain(const __grid_constant__ ClusterParameters<{}, {}> p) {{
  Block block(p.rows);
{}}}
)",
        shape_.rows, shape_.ranks, element_, phases_.places(), source_.memory.size(),
        source_.factors.size(), phases_.body());
  }

  // --- What other steps have computed, as variables

  std::string rows_of(size_t s, size_t i) {
    int from = producer(steps_[s], i), columns = width(steps_[s].launch.in(i));
    if (from < 0) {
      std::string name = fmt::format("x{}_{}", s, i);
      line("auto {} = read_rows<kPlace{}>(Rows<{}>{{block}});", name,
           inputs_.own_rows(steps_[s].launch.in(i)), columns);
      return name;
    }
    return rows_of(static_cast<size_t>(from));
  }
  std::string rows_of(size_t from) {
    if (forms_[from].by_rows) return fmt::format("v{}", from);
    Sent& sent = values_[from].rows;
    std::string name = fmt::format("rows{}", from);
    if (!sent.is_received) {
      int place = phases_.receive(sent);
      line("auto {} = read_rows<kPlace{}>(Rows<{}>{{block}});", name, place,
           width(steps_[from].launch.out()));
    }
    return name;
  }
  std::string columns_of(size_t s, size_t i) {
    int from = producer(steps_[s], i);
    if (from >= 0) return fmt::format("v{}", from);
    std::string name = fmt::format("x{}_{}", s, i);
    const Buffer& x = steps_[s].launch.in(i);
    line("auto {} = read_columns<kPlace{}>(Columns<{}>{{block}});", name, inputs_.columns(x),
         width(x));
    return name;
  }

  // A place where all rows are, for a product.
  int all_of(size_t s) {
    int from = producer(steps_[s], 0);
    if (from < 0) return inputs_.all_rows(steps_[s].launch.in(0));
    auto source = static_cast<size_t>(from);
    Value& value = values_[source];
    if (value.all.place < 0) {  // not sent when it was computed, which was by columns
      std::string rows = rows_of(source);
      line("auto again{} = round<{}, false>({});", source, element_, rows);
      send_to_all(source, fmt::format("again{}", source));
    }
    return phases_.receive(value.all);
  }

  void send_to_all(size_t s, const std::string& rounded) {
    int columns = width(steps_[s].launch.out());
    Sent& sent = values_[s].all =
        phases_.add_exchange(inputs_.rows_bytes(columns) - inputs_.own_rows_bytes(columns),
                             inputs_.rows_bytes(padded(columns)), true);
    line("send_to_all<kPlace{}, {}>(Rows<{}>{{block}}, {});", sent.place, sent.exchange, columns,
         rounded);
  }

  // A place that warps have to themselves, for columns on their way to memory or to other blocks:
  // the next such columns take it again. What stays there for a product is all warps'.
  int place_of_slice(int columns, bool stays) {
    auto [found, is_new] = passages_.try_emplace({phases_.phase(), inputs_.slice(columns)});
    if (is_new)
      found->second = phases_.add_place(inputs_.rows_bytes(padded(inputs_.slice(columns))));
    int place = phases_.use(found->second);
    if (stays) passages_.erase(found);
    return place;
  }

  // --- Steps

  void write_step(size_t s) {
    const ChainStep& step = steps_[s];
    if (is_product(*step.op)) {
      write_product(s);
    } else if (is_reaching(*step.op)) {
      line("auto v{} = {};", s, reach(step, shape_, inputs_, phases_));
      finish_product(s);
    } else if (is_norm(*step.op) || is_norm_grad(*step.op)) {
      write_norm(s);
    } else {
      write_pointwise(s);
    }
    write_result(s);
    if (step.op == &attention_op) phases_.end_first();
  }

  // The terms of a warp's rows; of few, products one behind the other read them once.
  std::string terms(int place, int stride, int depth) {
    if (depth > kMostKeptTerms) {
      return fmt::format("read_terms<Block, kPlace{}, {}>(block)", place, stride);
    }
    std::pair<int, int> wanted{place, phases_.phase()};
    if (kept_terms_ != wanted) {
      line("auto terms{} = keep_terms<Block, kPlace{}, {}, {}>(block);", ++kept_, place, stride,
           depth);
    }
    kept_terms_ = wanted;
    return fmt::format("terms{}", kept_);
  }

  // The products that are multiplied with step s: of the same rows, or all of memory.
  std::vector<size_t> multiplied_with(size_t s) const {
    std::vector<size_t> all{s};
    if (forms_[s].of_slices) return all;
    int x = producer(steps_[s], 0);
    if (x < 0 && (!ahead_ || phases_.phase() > 0)) return all;
    for (size_t t = s + 1; t < steps_.size(); ++t) {
      bool is_like = is_product(*steps_[t].op) && !forms_[t].of_slices;
      if (is_like && producer(steps_[t], 0) == x) all.push_back(t);
    }
    return all;
  }

  void write_product(size_t s) {
    if (multiplied_.insert(s).second) {
      for (size_t each : multiplied_with(s)) {
        multiplied_.insert(each);
        multiply(each);
      }
    }
    finish_product(s);
  }

  void finish_product(size_t s) {
    const Launch& launch = steps_[s].launch;
    int columns = width(launch.out());
    std::string_view way = forms_[s].by_rows ? "rows" : "columns";
    std::string_view where = forms_[s].by_rows ? "Rows" : "Columns";
    if (const Buffer* x = bias_of(steps_[s])) {
      ClusterInputs::Vector bias = inputs_.vector(*x);
      line("add_to_{}<{}, kPlace{}>({}<{}>{{block}}, v{});", way, bias.type, bias.place, where,
           columns, s);
    }
    if (launch.factor() != 1) line("scale(v{}, {});", s, inputs_.factor(launch.factor()));
  }

  void multiply(size_t s) {
    const Launch& launch = steps_[s].launch;
    bool of_slices = forms_[s].of_slices;
    bool transposed = launch.attributes.get_or("transpose_right", false);
    int depth = width(launch.in(0)), columns = width(launch.out());
    int own_depth = of_slices ? depth / shape_.ranks : depth, x = 0;
    if (of_slices) {
      Value& value = values_[static_cast<size_t>(producer(steps_[s], 0))];
      x = phases_.use(value.slice);
      if (value.slice_phase == phases_.phase() && synced_.insert(x).second)
        line("__syncthreads();");
    } else {
      x = all_of(s);
    }
    std::string left = terms(x, padded(own_depth), own_depth);
    ClusterInputs::Matrix weights =
        inputs_.matrix(launch.in(1), depth, columns, transposed, of_slices);
    std::string place = fmt::format("Columns<{}{}>{{block}}", columns, of_slices ? ", 1" : "");
    line("auto {}{} = multiply<{}>({}, {}, weights<{}, kPlace{}, {}>({}));",
         of_slices ? "sums" : "v", s, own_depth, place, left, transposed, weights.place,
         weights.stride, place);
    if (of_slices) add_up(s, columns);
  }

  void add_up(size_t s, int columns) {
    Sent sent = phases_.add_left(shape_.rows * padded_sums(columns) * 4);
    line("put_sums<kPlace{}>(Columns<{}, 1>{{block}}, sums{});", sent.place, columns, s);
    line("let_all_read<{}>(block);", sent.exchange);
    int place = phases_.receive(sent);
    line("auto v{} = sums_of_blocks<kPlace{}>(Rows<{}>{{block}});", s, place, columns);
    phases_.is_received(true);
  }

  void write_norm(size_t s) {
    const ChainStep& step = steps_[s];
    const Launch& launch = step.launch;
    bool is_grad = is_norm_grad(*step.op);
    bool centred = step.op == &layer_norm_op || step.op == &layer_norm_grad_op;
    std::string place = fmt::format("Rows<{}>{{block}}", width(launch.out()));
    std::string x = rows_of(s, 0), dy = is_grad ? rows_of(s, launch.inputs.size() - 1) : "";
    auto vector_or = [&](size_t i, int otherwise) {
      if (i >= launch.inputs.size() || is_by_row(step, i)) {
        return fmt::format("all_of({}, {})", place, otherwise);
      }
      ClusterInputs::Vector from = inputs_.vector(launch.in(i));
      return fmt::format("{}.template vector<{}, kPlace{}>()", place, from.type, from.place);
    };
    std::string weights = vector_or(1, 1), other = is_grad ? dy : vector_or(2, 0);
    line("auto v{} = normalise{}<{}>({}, {}, {}, {}, {}, {});", s, is_grad ? "_grad" : "", centred,
         place, x, weights, other, inputs_.factor(launch.factor()),
         inputs_.factor(static_cast<float>(launch.attr<double>("eps"))));
  }

  void write_pointwise(size_t s) {
    std::vector<std::string> variables;
    for (size_t i = 0; i < steps_[s].launch.inputs.size(); ++i) {
      variables.push_back(forms_[s].by_rows ? rows_of(s, i) : columns_of(s, i));
    }
    std::string result = fmt::format("v{}", s);
    for (const std::string& each : pointwise_lines(steps_[s], result, variables, inputs_)) {
      line("{}", each);
    }
  }

  // Rounds what a step has computed and brings it to all who need it.
  void write_result(size_t s) {
    const Launch& launch = steps_[s].launch;
    const StepForm& form = forms_[s];
    int columns = width(launch.out());
    line("auto r{} = round<{}, {}>(v{});", s, element_, view_of(launch.out()).saturates, s);
    bool is_stored = launch.out().data != nullptr;
    if (form.by_rows) {
      if (is_stored) {
        phases_.line_at_end("store_rows(Rows<{}>{{block}}, r{}, {});", columns, s,
                            inputs_.memory(launch.out().data));
      }
      if (form.to_all) send_to_all(s, fmt::format("r{}", s));
      return;
    }
    bool is_put = is_stored || form.to_rows || form.to_slice;
    if (!is_put && !as_stored_) return;
    std::string place = fmt::format("Columns<{}>{{block}}", columns);
    Value& value = values_[s];
    value.slice = place_of_slice(columns, form.to_slice);
    if (!is_put) return;
    value.slice_phase = phases_.phase();
    line("put_columns<kPlace{}>({}, r{});", value.slice, place, s);
    if (is_stored) {
      std::string store = fmt::format("store_columns<kPlace{}>({}, {});", value.slice, place,
                                      inputs_.memory(launch.out().data));
      form.to_slice ? phases_.line_at_end("{}", store) : line("{}", store);
    }
    if (!form.to_rows) return;
    value.rows = phases_.add_exchange(inputs_.own_rows_bytes(columns),
                                      inputs_.own_rows_bytes(columns), false);
    line("send_to_rows<kPlace{}, kPlace{}, {}>({});", value.slice, value.rows.place,
         value.rows.exchange, place);
  }

  std::span<const ChainStep> steps_;
  ClusterShape shape_;
  bool ahead_, as_stored_;
  std::vector<StepForm> forms_;
  std::vector<Value> values_;
  const char* element_;
  ClusterPhases phases_;
  ClusterSource source_;
  ClusterInputs inputs_{shape_, phases_, source_};
  std::map<std::pair<int, int>, int> passages_;  // places by phase and width
  std::set<size_t> multiplied_;
  std::set<int> synced_;  // places of slices that the whole block knows to be written
  std::pair<int, int> kept_terms_{-1, -1};  // by place and phase
  int kept_ = 0;
};

void append(std::vector<std::byte>& to, const void* from, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

}  // namespace

std::optional<ClusterSource> cluster_source(std::span<const ChainStep> steps,
                                            const ClusterShape& shape) {
  if (steps.empty() || !go_together(steps, shape)) return std::nullopt;
  for (bool as_stored : {false, true}) {
    for (bool ahead : {true, false}) {
      if (auto source = Writer(steps, shape, ahead, as_stored).write()) return source;
    }
  }
  return std::nullopt;
}

std::vector<std::byte> ClusterSource::parameters(int64_t rows) const {
  std::vector<std::byte> result;
  append(result, memory.data(), memory.size() * sizeof(memory.front()));
  append(result, &rows, sizeof(rows));
  append(result, factors.data(), factors.size() * sizeof(float));
  result.resize((result.size() + sizeof(rows) - 1) / sizeof(rows) * sizeof(rows));
  return result;
}

}  // namespace sigma1::cuda
