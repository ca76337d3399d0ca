#include "plan/memory/planner.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/error.hpp"

namespace rehearsal::plan {
namespace {

/// Requests that have their place, sorted by it: copies that lie side by side, since every request is held against all of them.
struct PlacedRequest {
  std::int64_t offset, top;
  std::int32_t begin, end;
};
using PlacedRequests = std::vector<PlacedRequest>;

bool overlap(const MemoryRequest& a, const PlacedRequest& b) { return a.begin <= b.end && b.begin <= a.end; }

/// Lowest offset at which `request` fits beside the placed ones.
std::int64_t lowest_fit(const MemoryRequest& request, const PlacedRequests& placed) {
  std::int64_t at = 0;
  for (const auto& other : placed) {
    if (!overlap(request, other)) continue;
    if (at + request.bytes <= other.offset) break;
    at = std::max(at, other.top);
  }
  return at;
}

/// Highest offset at which it ends below `top`; the lowest one where there is none.
std::int64_t highest_fit(const MemoryRequest& request, const PlacedRequests& placed, std::int64_t top) {
  std::int64_t at = 0, found = -1;
  const auto offer = [&](std::int64_t end) {
    if (at + request.bytes <= end) found = end - request.bytes;
  };
  for (const auto& other : placed) {
    if (!overlap(request, other)) continue;
    offer(std::min(other.offset, top));
    at = std::max(at, other.top);
  }
  offer(top);
  return found >= 0 ? found : lowest_fit(request, placed);
}

/// Bodies that a micro-batch passes, on the time axis.
struct Passage {
  std::int32_t begin = 0;
  std::int32_t first = 0;  ///< as its bodies have it
  /// Where backward bodies begin; where those begin and end that are a chunk's second one. -1: there is none.
  std::int32_t backward_begin = -1, late_begin = -1, late_end = -1;
};

/// Instructions of a role's bodies on one time axis: a body's instructions follow each other, bodies follow in slot order.
struct Timeline {
  std::vector<std::int32_t> body_start;
  std::int32_t length = 0;
  std::int32_t loop_begin = 0, update_begin = 0;  ///< where what runs before all micro-batches ends, and what runs after them begins
  bool steps_overlap = false;                     ///< a step begins while messages of the one before are on their way
  std::vector<Passage> passages = {{}};  ///< several where the model is there twice, one after the other: a micro-batch passes one of them
};

Timeline timeline_of(const Role& role, bool steps_overlap) {
  Timeline t;
  t.steps_overlap = steps_overlap;
  std::vector<std::uint16_t> chunks;  // of the backward bodies so far
  for (const auto& body : role.bodies) {
    t.body_start.push_back(t.length);
    const auto end = t.length + static_cast<std::int32_t>(body.instructions.size()) + 1;
    if (body.kind == BodyKind::Prologue) t.loop_begin = end;
    if (body.kind != BodyKind::Update) t.update_begin = end;
    if (body.first != t.passages.back().first) t.passages.push_back({t.length, body.first});
    auto& passage = t.passages.back();
    if (body.kind == BodyKind::Backward) {
      if (passage.backward_begin < 0) passage.backward_begin = t.length;
      const bool second = std::find(chunks.begin(), chunks.end(), body.chunk) != chunks.end();
      if (second && passage.late_begin < 0) passage.late_begin = t.length;
      chunks.push_back(body.chunk);
    }
    t.length = end;
    if (passage.late_begin >= 0 && body.kind == BodyKind::Backward) passage.late_end = t.length - 1;
  }
  return t;
}

const Passage& passage_at(const Timeline& timeline, std::int32_t when) {
  const auto after = std::find_if(timeline.passages.begin() + 1, timeline.passages.end(), [&](const Passage& p) { return p.begin > when; });
  return *(after - 1);
}

struct Life {
  std::int32_t begin = std::numeric_limits<std::int32_t>::max(), end = -1;
  void touch(std::int32_t when) { begin = std::min(begin, when), end = std::max(end, when); }
  [[nodiscard]] bool used() const { return end >= 0; }
};

std::vector<Life> lives_of(const Role& role, const Timeline& timeline) {
  std::vector<Life> lives(role.buffers.size());
  for (std::size_t b = 0; b < role.bodies.size(); ++b) {
    const auto& instructions = role.bodies[b].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const auto when = timeline.body_start[b] + static_cast<std::int32_t>(i);
      const auto touch = [&](BufferIndex buffer) {
        if (buffer != kNoBuffer) lives[base_of(role, buffer)].touch(when);
      };
      for (auto buffer : instructions[i].inputs) touch(buffer);
      for (auto buffer : instructions[i].outputs) touch(buffer);
      touch(instructions[i].workspace);
    }
  }
  return lives;
}

/// Lifetime on the planning timeline. Saved buffers of several micro-batches in flight are kept apart from everything else.
Life planned_life(const Buffer& buffer, Life life, const Timeline& timeline) {
  // Gradients of weights may run before or after other backward bodies of their micro-batch.
  if (buffer.lifetime == Lifetime::Saved && life.used()) {
    const auto& passage = passage_at(timeline, life.begin);
    if (passage.late_begin >= 0 && life.end >= passage.backward_begin) {
      life.begin = std::min(life.begin, passage.backward_begin);
      life.end = std::max(life.end, passage.late_end);
    }
  }
  const Life always{0, timeline.length};
  if (is_apart(buffer.lifetime)) return always;
  // A message may be on its way until the next use of its micro-batch's memory, or the end of the step: nothing may take its place before
  // (under_way.hpp). Where steps overlap one of an update may be until the next update, and what runs before a step's micro-batches meets
  // those of the step before.
  if (timeline.steps_overlap && ((buffer.sent && life.begin >= timeline.update_begin) || life.begin < timeline.loop_begin)) return always;
  if (buffer.sent) life.end = timeline.length;
  return life;
}

}  // namespace

namespace {

/// When the live set is largest, and how large.
struct Peak {
  std::int32_t when = 0;
  std::int64_t bytes = 0;
  [[nodiscard]] bool has(const MemoryRequest& r) const { return r.begin <= when && when <= r.end; }
};

Peak peak_of(const std::vector<MemoryRequest>& requests) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  for (const auto& r : requests) {
    changes.emplace_back(std::int64_t{2} * r.begin, r.bytes);
    changes.emplace_back(std::int64_t{2} * r.end + 1, -r.bytes);
  }
  std::sort(changes.begin(), changes.end());
  Peak peak;
  std::int64_t live = 0;
  for (const auto& [when, bytes] : changes)
    if ((live += bytes) > peak.bytes) peak = {static_cast<std::int32_t>(when / 2), live};
  return peak;
}

/// Larger goes first.
using Priority = std::pair<double, double>;
Priority by_size(const MemoryRequest& r) { return {r.bytes, r.end - r.begin}; }
Priority by_lifetime(const MemoryRequest& r) { return {r.end - r.begin, r.bytes}; }
Priority by_both(const MemoryRequest& r) { return {static_cast<double>(r.bytes) * (r.end - r.begin + 1), r.bytes}; }
Priority by_end(const MemoryRequest& r) { return {r.end, r.end - r.begin}; }

/// An order in which requests are placed. `peak_first`: what is alive at the peak, the last to end lowest, as on a stack: what is free
/// before and after it then lies together. `from_top`: the others hang from the peak's height instead of standing on what lies below.
struct Attempt {
  Priority (*priority)(const MemoryRequest&);
  bool peak_first, from_top;
};
constexpr std::array kAttempts{Attempt{by_size, false, false}, Attempt{by_size, true, false}, Attempt{by_lifetime, true, true},
                               Attempt{by_both, true, false}, Attempt{by_both, true, true}};

std::vector<std::size_t> order_of(const Attempt& attempt, const Peak& peak, const std::vector<MemoryRequest>& requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto first = [&](const MemoryRequest& r) { return attempt.peak_first && peak.has(r); };
  const auto key = [&](std::size_t i) {
    const auto& r = requests[i];
    return std::pair(first(r), first(r) ? by_end(r) : attempt.priority(r));
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
  return order;
}

/// The lowest layout so far.
class Layouts {
 public:
  explicit Layouts(std::vector<MemoryRequest>& requests) : requests_(requests), peak_(peak_of(requests)) {}

  void attempt(const Attempt& attempt) { place(order_of(attempt, peak_, requests_), attempt.from_top); }

  /// What stands at the top is placed first next time ("squeaky wheel": Joslin and Clements, 1999), beginning with what ends last.
  void repair(std::size_t tries) {
    auto order = order_of({by_end, false, false}, peak_, requests_);
    for (; tries > 0 && !within(kGood); --tries) {
      const auto height = place(order, false);
      std::stable_partition(order.begin(), order.end(), [&](std::size_t i) { return requests_[i].offset + requests_[i].bytes == height; });
    }
  }

  [[nodiscard]] bool within(double factor) const {
    return !best_.empty() && static_cast<double>(height_) <= factor * static_cast<double>(peak_.bytes);
  }

  std::int64_t take() && {
    requests_ = std::move(best_);
    return height_;
  }

  static constexpr double kGood = 1.01, kFair = 1.02;

 private:
  /// One after the other. Returns the height.
  std::int64_t place(const std::vector<std::size_t>& order, bool from_top) {
    PlacedRequests placed;
    placed.reserve(order.size());
    std::int64_t height = 0;
    for (const auto i : order) {
      auto& request = requests_[i];
      request.offset = from_top && !peak_.has(request) ? highest_fit(request, placed, peak_.bytes) : lowest_fit(request, placed);
      height = std::max(height, request.offset + request.bytes);
      placed.insert(std::ranges::upper_bound(placed, request.offset, {}, &PlacedRequest::offset),
                    {request.offset, request.offset + request.bytes, request.begin, request.end});
    }
    if (best_.empty() || height < height_) {
      height_ = height;
      best_ = requests_;
    }
    return height;
  }

  std::vector<MemoryRequest>& requests_;
  const Peak peak_;
  std::vector<MemoryRequest> best_;
  std::int64_t height_ = 0;
};

/// So many that all of them together take a fraction of a second.
std::size_t repairs_of(std::size_t requests) {
  constexpr double kComparisons = 1e8, kMost = 60;
  return static_cast<std::size_t>(std::min(kMost, kComparisons / std::max(1.0, static_cast<double>(requests * requests))));
}

}  // namespace

std::int64_t lay_out(std::vector<MemoryRequest>& requests) {
  if (requests.empty()) return 0;
  Layouts layouts(requests);
  for (const auto& attempt : kAttempts)
    if (!layouts.within(Layouts::kGood)) layouts.attempt(attempt);
  if (!layouts.within(Layouts::kFair)) layouts.repair(repairs_of(requests.size()));
  return std::move(layouts).take();
}

std::int64_t largest_live_set(const std::vector<MemoryRequest>& requests) { return peak_of(requests).bytes; }

namespace {

/// Places the base buffers chosen by `belongs`; returns the height of their layout. Offsets are relative to `origin`.
template <class Belongs>
std::int64_t place(Role& role, const Timeline& timeline, std::int64_t origin, Belongs belongs) {
  const auto lives = lives_of(role, timeline);
  std::vector<MemoryRequest> requests;
  std::vector<std::size_t> owners;
  for (std::size_t b = 0; b < role.buffers.size(); ++b) {
    const auto& buffer = role.buffers[b];
    const bool needed = lives[b].used() || is_apart(buffer.lifetime);
    if (buffer.part_of != kNoBuffer || !needed || !belongs(buffer)) continue;
    const auto life = planned_life(buffer, lives[b], timeline);
    requests.push_back({buffer_aligned(buffer.bytes) * buffer.versions, life.begin, life.end});
    owners.push_back(b);
  }
  const auto height = lay_out(requests);
  role.memory.lower_bound_bytes += largest_live_set(requests);
  for (std::size_t i = 0; i < owners.size(); ++i) role.buffers[owners[i]].offset = origin + requests[i].offset;
  return height;
}

void resolve_parts(Role& role) {
  for (auto& buffer : role.buffers) {
    std::int64_t extra = 0;
    const Buffer* b = &buffer;
    while (b->part_of != kNoBuffer) extra += b->part_offset, b = &role.buffers[b->part_of];
    if (b != &buffer) buffer.offset = b->offset < 0 ? -1 : b->offset + extra;
  }
}

/// What the arena holds when it is fullest: long-lived categories by their bytes, the rest by what is alive at the peak.
void count_categories(Role& role, const Timeline& timeline) {
  auto& memory = role.memory;
  memory.by_category.assign(static_cast<std::size_t>(MemoryCategory::Count), 0);
  const auto lives = lives_of(role, timeline);
  // Micro-batches in flight have blocks of their own, which are fullest at another time than what they share.
  const bool apart = memory.in_flight > 1;
  const std::vector<std::int64_t> none(static_cast<std::size_t>(timeline.length) + 2, 0);
  std::array<std::vector<std::int64_t>, 2> live{none, none};
  const auto each = [&](auto&& use) {
    for (std::size_t b = 0; b < role.buffers.size(); ++b) {
      const auto& buffer = role.buffers[b];
      if (buffer.part_of != kNoBuffer || buffer.offset < 0 || buffer.on_host) continue;
      use(buffer, planned_life(buffer, lives[b], timeline), apart && buffer.lifetime == Lifetime::Saved);
    }
  };
  each([&](const Buffer& buffer, Life life, bool in_block) {
    const auto bytes = buffer_aligned(buffer.bytes) * buffer.versions;
    auto& changes = live[in_block ? 1 : 0];
    changes[static_cast<std::size_t>(life.begin)] += bytes;
    changes[static_cast<std::size_t>(life.end) + 1] -= bytes;
  });
  for (auto& bytes : live) std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  std::array<std::int32_t, 2> peak{};
  for (std::size_t i = 0; i < live.size(); ++i)
    peak[i] = static_cast<std::int32_t>(std::max_element(live[i].begin(), live[i].end()) - live[i].begin());
  std::int64_t counted = 0;
  each([&](const Buffer& buffer, Life life, bool in_block) {
    const auto fullest = peak[in_block ? 1 : 0];
    if (life.begin > fullest || life.end < fullest) return;
    const auto bytes = buffer_aligned(buffer.bytes) * buffer.versions * (in_block ? memory.in_flight : 1);
    memory.by_category[static_cast<std::size_t>(buffer.category)] += bytes;
    counted += bytes;
  });
  // What the layout could not close up between blocks counts as workspace.
  memory.by_category[static_cast<std::size_t>(MemoryCategory::Workspace)] += memory.arena_bytes - counted;
}

/// The same in the host's memory: what is there for good, then a block for every micro-batch in flight.
void plan_host_memory(Role& role, const Timeline& timeline) {
  const auto common = place(role, timeline, 0, [](const Buffer& b) { return b.on_host && b.lifetime != Lifetime::Saved; });
  const auto saved = place(role, timeline, common, [](const Buffer& b) { return b.on_host && b.lifetime == Lifetime::Saved; });
  role.memory.host_saved_stride = buffer_aligned(saved);
  role.memory.host_bytes = common + role.memory.host_saved_stride * role.memory.in_flight;
}

}  // namespace

void plan_memory(Role& role, int in_flight, bool steps_overlap) {
  ensure(in_flight >= 1, "a role holds at least one micro-batch");
  const auto timeline = timeline_of(role, steps_overlap);
  role.memory = {};
  role.memory.in_flight = in_flight;
  plan_host_memory(role, timeline);
  role.memory.lower_bound_bytes = 0;
  if (in_flight == 1) {
    role.memory.arena_bytes = place(role, timeline, 0, [](const Buffer& b) { return !b.on_host; });
  } else {
    // Micro-batches interleave: what one saves may meet any moment of another, so a block of saved buffers per micro-batch in flight
    // stands beside a common area in which a body's transients share memory over time.
    const auto common = place(role, timeline, 0, [](const Buffer& b) { return !b.on_host && b.lifetime != Lifetime::Saved; });
    const auto saved = place(role, timeline, common, [](const Buffer& b) { return !b.on_host && b.lifetime == Lifetime::Saved; });
    role.memory.saved_stride = buffer_aligned(saved);
    role.memory.arena_bytes = common + role.memory.saved_stride * in_flight;
    role.memory.lower_bound_bytes += saved * (in_flight - 1);
  }
  resolve_parts(role);
  count_categories(role, timeline);
}

}  // namespace rehearsal::plan
