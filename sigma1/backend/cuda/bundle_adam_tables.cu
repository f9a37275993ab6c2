// Which tensors a bundle of steps takes in which order, cut into what, and which copies go along.
#include <algorithm>

#include "sigma1/backend/cuda/bundle_adam.cuh"
#include "sigma1/backend/cuda/turn.cuh"

namespace sigma1::cuda {
namespace {

// The type of a plain step, else index.
Type plain_type(const Adam& adam) {
  Type type = adam.param.view.type;
  auto fits = [](const auto& each, Type wanted) {
    return each.view.type == wanted && each.packs && each.view.scale == nullptr;
  };
  auto is_state = [&](const Input& now, const Next& next, Type wanted) {
    return fits(now, wanted) && fits(next.out, wanted) && !next.out.stochastic;
  };
  bool means_fit =
      (is_state(adam.m, adam.next_m, Type::fp32) || is_state(adam.m, adam.next_m, type)) &&
      is_state(adam.v, adam.next_v, Type::fp32);
  bool weights_fit =
      fits(adam.param, type) && fits(adam.grad, type) && fits(adam.next_param.out, type);
  bool is_plain = weights_fit && means_fit && adam.param.view.count % 4 == 0;
  bool has_kernel = type == Type::fp16 || type == Type::bf16 || type == Type::fp32;
  return is_plain && has_kernel ? type : Type::index;
}

// What a cast of new weights is as a copy that their step writes; nothing: it does not.
AdamCopy copy_of(const ChainStep& step, const ChainStep& cast) {
  const Buffer& out = cast.launch.out();
  if (cast.launch.in(0).data != step.launch.out(0).data || out.shape.empty()) return {};
  int64_t width = out.shape.back(), rows = out.count() / width;
  const Output to = output_of(cast.launch);
  bool is_e4m3 = to.view.type == Type::e4m3;
  bool is_narrow = (is_e4m3 || to.view.type == Type::e5m2) && to.view.saturates && !to.stochastic;
  bool in_squares = rows % 16 == 0 && width % 16 == 0;
  bool is_plain = plain_type(Adam(step.launch)) != Type::index && cast.launch.factor() == 1;
  auto on_16 = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  bool fits = is_narrow && in_squares && is_plain && on_16(out.data) && on_16(out.turned);
  if (!fits) return {};
  return {rows, width, reinterpret_cast<uint32_t*>(out.data),
          reinterpret_cast<uint8_t*>(out.turned), is_e4m3};
}

std::vector<Adam> adams_of(std::span<const AdamTask> tasks) {
  std::vector<Adam> adams;
  for (const AdamTask& each : tasks) adams.emplace_back(each.step->launch);
  return adams;
}

std::vector<AdamCopy> copies_of(std::span<const AdamTask> tasks) {
  std::vector<AdamCopy> copies;
  for (const AdamTask& each : tasks) copies.push_back(each.copy);
  return copies;
}

}  // namespace

int AdamCopy::squares() const {
  auto parts = [](int64_t size) { return (size + kTurnSide - 1) / kTurnSide; };
  return static_cast<int>(parts(rows) * parts(width));
}

Type AdamTask::plain() const { return plain_type(Adam(step->launch)); }

std::vector<AdamTask> AdamTables::tasks_of(std::span<const ChainStep> steps,
                                           std::vector<const ChainStep*>& casts) {
  std::vector<AdamTask> tasks;
  for (const ChainStep& step : steps) {
    AdamTask& task = tasks.emplace_back(AdamTask{&step});
    auto found = std::ranges::find_if(casts, [&](const ChainStep* cast) {
      task.copy = copy_of(step, *cast);
      return task.copy.rows > 0;
    });
    if (found != casts.end()) casts.erase(found);
  }
  std::ranges::stable_sort(tasks, {}, [](const AdamTask& task) {
    return std::pair(task.copy.rows > 0, !is_sixteen(task.plain()));
  });
  return tasks;
}

AdamTables::Chunks AdamTables::chunks_of(std::span<const AdamTask> tasks, bool in_squares) {
  Chunks chunks;
  for (int i = 0; i < static_cast<int>(tasks.size()); ++i) {
    const AdamTask& task = tasks[static_cast<size_t>(i)];
    const Adam adam(task.step->launch);
    Type plain = task.plain();
    int64_t count = in_squares ? task.copy.squares() : StepChunk::count_for(adam.param.view.count);
    for (int chunk = 0; chunk < count; ++chunk) {
      chunks.all.push_back({i, chunk, plain, adam.m.view.type == plain});
    }
    bool sixteen = is_sixteen(plain), copied = task.copy.rows > 0;
    bool goes_on = !chunks.ranges.empty() && chunks.ranges.back().is_sixteen == sixteen &&
                   chunks.ranges.back().is_copied == copied;
    auto first = static_cast<unsigned>(chunks.all.size() - static_cast<size_t>(count));
    if (!goes_on) chunks.ranges.push_back({first, 0, sixteen, copied});
    chunks.ranges.back().count += static_cast<unsigned>(count);
  }
  std::erase_if(chunks.ranges, [](const Range& range) { return range.count == 0; });
  return chunks;
}

AdamTables::AdamTables(const Device& device, std::span<const AdamTask> tasks)
    : AdamTables(device, adams_of(tasks), copies_of(tasks), chunks_of(tasks, false),
                 chunks_of(tasks, true)) {}

AdamTables::AdamTables(const Device& device, std::span<const Adam> tasks,
                       std::span<const AdamCopy> copies, const Chunks& chunks,
                       const Chunks& squares)
    : tasks_(device, tasks),
      copies_(device, copies),
      chunks_(device, chunks.all),
      squares_(device, squares.all),
      chunk_ranges_(chunks.ranges),
      square_ranges_(squares.ranges),
      corrections_(device, static_cast<int64_t>(tasks.size() * sizeof(Corrections))) {}

AdamLaunch AdamTables::launch_of(const DeviceTable<AdamChunk>& chunks, const Range& range) const {
  return {.tasks = tasks_.data(),
          .chunks = chunks.data(),
          .corrections = reinterpret_cast<const Corrections*>(corrections_.data()),
          .first = range.first,
          .count = range.count,
          .is_sixteen = range.is_sixteen};
}

std::vector<AdamLaunch> AdamTables::launches() const {
  std::vector<AdamLaunch> launches;
  for (const Range& each : chunk_ranges_) launches.push_back(launch_of(chunks_, each));
  return launches;
}

bool AdamTables::fits(const Launch& launch) {
  constexpr int64_t kMost = int64_t{1} << 40;
  return launch.in(0).count() > 0 && launch.in(0).count() < kMost;
}

}  // namespace sigma1::cuda
