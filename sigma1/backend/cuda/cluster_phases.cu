#include "sigma1/backend/cuda/cluster_phases.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/launch.cuh"

namespace sigma1::cuda {
namespace {

// Numbers behind the last place may be read, and are not used.
constexpr int kBehindPlaces = 256;
// Before the first are barriers of exchanges.
constexpr int kMostExchanges = 32, kBarrierBytes = 8;

}  // namespace

ClusterPhases::ClusterPhases() {
  phases_.emplace_back();
  add_place(kMostExchanges * kBarrierBytes);
}

int ClusterPhases::add_place(int bytes) {
  places_.push_back({rounded_up(bytes, 16), phase(), phase(), 0});
  return static_cast<int>(places_.size()) - 1;
}

int ClusterPhases::use(int place) {
  PhasePlace& used = places_[static_cast<size_t>(place)];
  used.last = std::max(used.last, phase());
  return place;
}

int ClusterPhases::copy(int place_bytes, std::string what, std::string memory) {
  int place = add_place(place_bytes);
  copies_.push_back({place, phase(), std::move(what), std::move(memory)});
  return place;
}

// A block may begin to send while another is still in the phase before.
ClusterPhases::Sent ClusterPhases::add_exchange(int bytes, int place_bytes, bool is_source) {
  Sent sent = add_left(place_bytes);
  sent.is_source = is_source;
  exchanges_.back() = bytes;
  places_.back().first = std::max(0, phase() - 1);
  return sent;
}

ClusterPhases::Sent ClusterPhases::add_left(int place_bytes) {
  if (exchanges_.empty()) line("wait_for_cluster();");
  exchanges_.push_back(0);
  return {add_place(place_bytes), phase(), static_cast<int>(exchanges_.size()) - 1, true};
}

int ClusterPhases::receive(Sent& sent) {
  if (phase() <= sent.phase) {
    end_phase();
    phases_.emplace_back();
    has_read_ = false;
    exchanges_before_ = exchanges_.size();
  }
  if (sent.is_source) keep_for_others(sent.place);
  if (!sent.is_received) line("receive({});", sent.exchange);
  sent.is_received = true;
  is_received();
  return use(sent.place);
}

// That all others have what they get from a place a block knows by what they send later, which it
// receives in the next phase, or the one behind that.
void ClusterPhases::keep_for_others(int place) {
  bool sends_before = exchanges_.size() > exchanges_before_;
  PhasePlace& kept = places_[static_cast<size_t>(place)];
  kept.last = std::max(kept.last, phase() + (sends_before ? 2 : 1));
}

void ClusterPhases::end_first() {
  if (phase() == 0) phases_.emplace_back();
}

void ClusterPhases::end_phase() {
  phases_.back() += last_lines_;
  last_lines_.clear();
}

bool ClusterPhases::end() {
  end_phase();
  if (!exchanges_.empty()) {
    phases_.back().insert(received_,
                          line_of("be_done_{}_others();", has_read_ ? "reading" : "with"));
    line("wait_for_cluster();");
  }
  places_.front().last = phase();
  return exchanges_.size() <= kMostExchanges && send_early();
}

bool ClusterPhases::fits() {
  shared_bytes_ = set_offsets(places_) + kBehindPlaces;
  return shared_bytes_ <= kMostShared;
}

// A phase before it is needed at the latest, and as early as there is room.
bool ClusterPhases::send_early() {
  for (const Copy& each : copies_) sent_in(each) = std::max(0, each.needed - 1);
  if (!fits()) return false;
  for (const Copy& each : copies_) {
    int latest = sent_in(each);
    for (int& sent = sent_in(each) = 0; sent < latest && !fits();) ++sent;
  }
  return fits();
}

std::string ClusterPhases::places() const {
  std::string text;
  for (size_t i = 0; i < places_.size(); ++i) {
    text += fmt::format("constexpr int kPlace{} = {};\n", i, places_[i].offset);
  }
  return text;
}

// What the phase `now` sends for, for the phase `needed`.
std::string ClusterPhases::copies_of(int now, int needed) const {
  std::string text;
  for (const Copy& each : copies_) {
    if (each.needed != needed || sent_in(each) != now) continue;
    text += line_of("{}, kPlace{}>(block, {});", each.what, each.place, each.memory);
  }
  return text.empty() ? text : text + line_of("commit_copies();");
}

std::string ClusterPhases::expected() const {
  if (exchanges_.empty()) return "";
  std::string text = line_of("if (block.thread == 0) {{");
  for (size_t i = 0; i < exchanges_.size(); ++i) {
    text += exchanges_[i] > 0 ? line_of("  expect({}, {});", i, exchanges_[i])
                              : line_of("  expect_blocks({}, Block::kRanks);", i);
  }
  return text + line_of("  publish_barriers();") + line_of("}}") + line_of("arrive_at_cluster();");
}

std::string ClusterPhases::body() const {
  std::string text = expected();
  std::vector<int> groups;  // of copies, as they are sent for: the phase that needs each
  auto meet = [&](int now) {
    // All groups but those behind the last that this phase needs.
    auto last = std::find_if(groups.rbegin(), groups.rend(), [&](int each) { return each <= now; });
    text += line_of("wait_copies<{}>();", last - groups.rbegin()) + line_of("__syncthreads();");
  };
  int phases = static_cast<int>(phases_.size());
  for (int now = 0; now < phases; ++now) {
    if (now > 0) meet(now);
    for (int needed = now; needed < phases; ++needed) {
      std::string copies = copies_of(now, needed);
      if (!copies.empty()) groups.push_back(needed);
      text += copies;
    }
    if (now == 0) meet(now);
    text += phases_[static_cast<size_t>(now)];
  }
  return text;
}

}  // namespace sigma1::cuda
