#include "sigma1/runtime/placed_values.h"

namespace sigma1 {
namespace {

struct Planned {
  std::vector<int> roots;
  std::vector<Lifetime> lifetimes;
};

Planned values_of_kind(PlacedValues& values, Place::Kind kind) {
  Planned planned;
  int end = static_cast<int>(values.groups.size());
  bool lasts = kind == Place::Kind::constant;
  for (int each = 0; each < static_cast<int>(values.roots.size()); ++each) {
    if (!values.roots.is_root(each) || values.place(each).kind != kind) continue;
    auto index = static_cast<size_t>(each);
    const StoredType& type = values.type(each);
    int64_t bytes = type.turned_width > 0 ? 2 * type.bytes() : type.bytes();
    planned.lifetimes.push_back(
        {lasts ? 0 : values.first[index], lasts ? end : values.last[index], bytes});
    planned.roots.push_back(each);
  }
  return planned;
}

MemoryPlan plan_kind(PlacedValues& values, const Planned& planned) {
  MemoryPlan plan = plan_memory(planned.lifetimes);
  for (size_t i = 0; i < planned.roots.size(); ++i) {
    const StoredType& type = values.type(planned.roots[i]);
    Place& there = values.place(planned.roots[i]);
    there.offset = plan.offsets[i];
    if (type.turned_width == 0) continue;
    there.turned = there.offset + type.bytes();
  }
  return plan;
}

std::vector<Held> held_at_peak(const PlacedValues& values, const Planned& planned) {
  std::vector<int64_t> held(values.groups.size() + 1);
  for (const Lifetime& each : planned.lifetimes) {
    for (int t = each.first; t <= each.last; ++t) held[static_cast<size_t>(t)] += each.bytes;
  }
  auto peak = static_cast<int>(std::ranges::max_element(held) - held.begin());
  std::vector<Held> at_peak;
  for (size_t i = 0; i < planned.lifetimes.size(); ++i) {
    const Lifetime& each = planned.lifetimes[i];
    if (each.first > peak || each.last < peak) continue;
    at_peak.push_back({values.roots.node_of(planned.roots[i]), each.bytes});
  }
  return at_peak;
}

}  // namespace

void plan_places(PlacedValues& values, Placement& plan) {
  Planned in_arena = values_of_kind(values, Place::Kind::arena);
  plan.arena = plan_kind(values, in_arena);
  plan.at_peak = held_at_peak(values, in_arena);
  plan.constants = plan_kind(values, values_of_kind(values, Place::Kind::constant));
  for (int i = 0; i < values.graph.size(); ++i) {
    plan.places.emplace_back();
    for (size_t o = 0; o < values.graph.node(i).outputs.size(); ++o) {
      Value value = values.roots.value(i, o);
      int root = values.roots.root_of(value);
      Place there = values.place(root);
      there.turned_width = values.type(root).turned_width;
      if (auto part = values.parts.find(values.roots.id(value)); part != values.parts.end()) {
        there.offset += part->second.bytes;
        there.pitch = part->second.pitch;
        there.turned = -1;
      }
      plan.places.back().push_back(std::move(there));
    }
  }
}

}  // namespace sigma1
