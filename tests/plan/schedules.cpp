#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/random.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "plan/schedules/schedule.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

/// Plays the slots of all stages with free messages.
class Play {
 public:
  Play(const ScheduleRow& row, const PipelineShape& shape, const PassTimes& times, int steps = 1)
      : row_(row), shape_(shape), times_(times), stages_(static_cast<std::size_t>(shape.stages)) {
    for (int s = 0; s < shape.stages; ++s) stages_[static_cast<std::size_t>(s)].slots = slots_of(s, steps);
  }

  /// Seconds of the stage that takes longest from its first slot to its last; nothing when stages wait for each other for ever.
  std::optional<double> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) moved = advance(s) || moved;
    }
    double longest = 0;
    for (const auto& stage : stages_) {
      if (stage.next < stage.slots.size()) return std::nullopt;
      longest = std::max(longest, stage.clock - std::max(stage.began, 0.0));
    }
    return longest;
  }

  [[nodiscard]] double end() const {
    double end = 0;
    for (const auto& stage : stages_) end = std::max(end, stage.clock);
    return end;
  }

 private:
  /// Steps that follow each other: what runs ahead of the first one comes before it, what runs ahead of the last one is left out.
  [[nodiscard]] std::vector<PipelineSlot> slots_of(int stage, int steps) const {
    std::vector<PipelineSlot> all;
    for (int m = 0; m < row_.ahead(stage, shape_); ++m) all.push_back({false, m});
    for (int step = 0; step < steps; ++step)
      for (auto slot : row_.order(stage, shape_)) {
        slot.micro_batch += step * shape_.micro_batches;
        if (slot.micro_batch < steps * shape_.micro_batches) all.push_back(slot);
      }
    return all;
  }

  struct Stage {
    std::vector<PipelineSlot> slots;
    std::size_t next = 0;
    double clock = 0, began = -1;
  };
  /// Copy (ChunkPlacement::Both), part, micro-batch, backward.
  using Done = std::tuple<int, int, int, bool>;

  [[nodiscard]] std::optional<double> ended(const Done& d) const {
    const auto at = done_.find(d);
    return at == done_.end() ? std::nullopt : std::optional(at->second);
  }

  /// When what the slot waits for has ended: nothing while it has not.
  [[nodiscard]] std::optional<double> ready(const PipelineSlot& slot, int stage) const {
    const int copy = row_.placement == ChunkPlacement::Both ? slot.chunk : 0;
    const int part = part_of(row_.placement, shape_, stage, slot.chunk), last = parts(row_.placement, shape_) - 1;
    if (!slot.backward) return part == 0 ? std::optional(0.0) : ended({copy, part - 1, slot.micro_batch, false});
    if (slot.part == GradientPart::Weights) return ended({copy, part, slot.micro_batch, true});
    const auto forward = ended({copy, part, slot.micro_batch, false});
    const auto gradient = part == last ? forward : ended({copy, part + 1, slot.micro_batch, true});
    if (!forward || !gradient) return std::nullopt;
    return std::max(*forward, *gradient);
  }

  [[nodiscard]] double seconds(const PipelineSlot& slot) const {
    if (!slot.backward) return times_.forward;
    const double input = slot.part == GradientPart::Weights ? 0 : times_.input_gradient;
    return input + (slot.part == GradientPart::Input ? 0 : times_.weight_gradient);
  }

  bool advance(std::size_t s) {
    auto& me = stages_[s];
    bool moved = false;
    while (me.next < me.slots.size()) {
      const auto& slot = me.slots[me.next];
      const auto at = ready(slot, static_cast<int>(s));
      if (!at) break;
      const double begin = std::max(me.clock, *at);
      if (me.began < 0) me.began = begin;
      me.clock = begin + seconds(slot);
      const int copy = row_.placement == ChunkPlacement::Both ? slot.chunk : 0;
      if (!slot.backward || slot.part != GradientPart::Weights)
        done_[{copy, part_of(row_.placement, shape_, static_cast<int>(s), slot.chunk), slot.micro_batch, slot.backward}] = me.clock;
      ++me.next;
      moved = true;
    }
    return moved;
  }

  const ScheduleRow& row_;
  PipelineShape shape_;
  PassTimes times_;
  std::vector<Stage> stages_;
  std::map<Done, double> done_;
};

std::vector<int> chunk_counts(const ScheduleRow& row) {
  return row.chunks == 0 ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{row.chunks};
}

bool possible(const ScheduleRow& row, const PipelineShape& s) { return row.refusal == nullptr || row.refusal(s).empty(); }

template <class Use>
void for_all_shapes(const Use& use) {
  for (const auto& row : schedule_table())
    for (int stages = 1; stages <= 8; ++stages)
      for (const int chunks : chunk_counts(row))
        for (const int micro_batches : {1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 21, 33})
          if (const PipelineShape s{stages, micro_batches, chunks}; possible(row, s)) use(row, s);
}

/// Every pass of a stage once, forward before backward before the weights; at most so many are held as the row says.
bool slots_are_right(const ScheduleRow& row, const PipelineShape& s, int stage) {
  std::map<std::pair<int, int>, int> state;  // by chunk and micro-batch: 1 forward, 2 input gradient, 3 all
  bool right = true;
  const int ahead = row.ahead(stage, s);
  for (int m = 0; m < std::min(ahead, s.micro_batches); ++m) state[{0, m}] = 1;
  for (auto slot : row.order(stage, s)) {
    if (!slot.backward && slot.micro_batch >= s.micro_batches) {
      slot.micro_batch -= s.micro_batches;  // of the step that follows: in the middle of many, what this one had in the step before
      right = right && slot.micro_batch < ahead;
      continue;
    }
    auto& now = state[{slot.chunk, slot.micro_batch}];
    const int needed = !slot.backward ? 0 : slot.part == GradientPart::Weights ? 2 : 1;
    right = right && now == needed && slot.chunk < s.chunks && slot.micro_batch < s.micro_batches;
    right = right && (!slot.backward || row.splits_backward == (slot.part != GradientPart::Both));
    now = slot.backward && slot.part == GradientPart::Both ? 3 : needed + 1;
  }
  // A copy of the model takes its share of the micro-batches, a chunk all of them.
  const int passes = s.micro_batches * (row.placement == ChunkPlacement::Both ? 1 : s.chunks);
  return right && std::ssize(state) == passes && std::ranges::all_of(state, [](const auto& entry) { return entry.second == 3; });
}

const PassTimes kEqual{1, 1, 1};

}  // namespace

TEST_CASE("every pass runs once on every stage, in an order that is possible") {
  for_all_shapes([](const ScheduleRow& row, const PipelineShape& s) {
    for (int stage = 0; stage < s.stages; ++stage) {
      INFO(row.name << " stage " << stage << " of " << s.stages << ", " << s.micro_batches << " micro-batches, " << s.chunks << " chunks");
      CHECK(slots_are_right(row, s, stage));
    }
  });
}

TEST_CASE("stages never wait for each other for ever") {
  for_all_shapes([](const ScheduleRow& row, const PipelineShape& s) {
    INFO(row.name << ", " << s.stages << " stages, " << s.micro_batches << " micro-batches, " << s.chunks << " chunks");
    CHECK(Play(row, s, kEqual).run().has_value());
  });
  for (std::uint64_t i = 0; i < 60; ++i)
    for (const auto& row : schedule_table()) {
      const auto below = [&](std::uint64_t stream, int n) { return 1 + static_cast<int>(random_uniform(7, stream, i) * n); };
      const PipelineShape s{below(0, 16), below(1, 40), row.chunks == 0 ? below(2, 5) : row.chunks};
      const PassTimes times{random_uniform(8, 0, i), random_uniform(8, 1, i), random_uniform(8, 2, i)};
      INFO(row.name << ", " << s.stages << " stages, " << s.micro_batches << " micro-batches, " << s.chunks << " chunks");
      if (possible(row, s)) CHECK(Play(row, s, times).run().has_value());
    }
}

TEST_CASE("the play notices stages that wait for each other for ever") {
  // stage 1 begins with micro-batch 1, which stage 0 starts only after micro-batch 0 has come back
  ScheduleRow crossed;
  crossed.order = [](int stage, const PipelineShape&) {
    if (stage == 0) return std::vector<PipelineSlot>{{false, 0}, {true, 0}, {false, 1}, {true, 1}};
    return std::vector<PipelineSlot>{{false, 1}, {false, 0}, {true, 1}, {true, 0}};
  };
  CHECK_FALSE(Play(crossed, {2, 2, 1}, kEqual).run().has_value());
}

TEST_CASE("the idle time of the closed form is that of the played schedule") {
  int known = 0;
  for_all_shapes([&](const ScheduleRow& row, const PipelineShape& s) {
    if (row.asynchronous) return;
    for (const PassTimes& times : {kEqual, PassTimes{2, 2, 1}, PassTimes{2, 3, 2}, PassTimes{1, 1.25, 1.25}}) {
      const auto idle = row.idle(s, times);
      if (!idle) continue;
      ++known;
      const int passes = row.placement == ChunkPlacement::Both ? 1 : s.chunks;
      INFO(row.name << ", " << s.stages << " stages, " << s.micro_batches << " micro-batches, " << s.chunks << " chunks");
      CHECK(*Play(row, s, times).run() - s.micro_batches * passes * times.sum() == Approx(*idle).margin(1e-9));
    }
  });
  CHECK(known > 2000);
}

TEST_CASE("idle times by hand") {
  const PassTimes t{1, 1, 1};
  // 4 stages, 8 micro-batches: 3 stages' fill and drain of 3 s; in 8 x 3 s
  CHECK(schedule("1f1b").idle({4, 8, 1}, t) == 9);
  CHECK(schedule("1f1b").bubble(4, 8) == Approx(3.0 / 8.0));
  // the same 4 stages in 2 chunks each, whose passes take half: 3 x 1.5 s
  CHECK(schedule("interleaved").idle({4, 8, 2}, {0.5, 0.5, 0.5}) == 4.5);
  CHECK(schedule("breadth-first").idle({4, 8, 2}, {0.5, 0.5, 0.5}) == 4.5);
  // 2 micro-batches: the first one comes round after 4 passes, 2 later than the second has gone by, in both chunks; 1 more waits behind it
  CHECK(schedule("breadth-first").idle({4, 2, 2}, {0.5, 0.5, 0.5}) == 7.5);  // 5 passes of 1.5 s
  CHECK(schedule("zb-h1").idle({4, 8, 1}, t) == 3);                          // 3 (1 + 1 - 1)
  CHECK(schedule("zb-v").idle({4, 8, 2}, t) == 0);
  CHECK(schedule("zb-v").idle({4, 6, 2}, t) == 2);  // one micro-batch less than 2p - 1
  CHECK_FALSE(schedule("zb-v").idle({4, 8, 2}, {1, 2, 1}).has_value());
  CHECK(schedule("dualpipe").idle({8, 16, 2}, t) == 3);    // (8/2 - 1)(1 + 1 - 1)
  CHECK(schedule("dualpipe-v").idle({4, 16, 2}, t) == 3);  // half of these stages, as many chunks to pass
}

TEST_CASE("an asynchronous schedule leaves nobody idle once the pipe is full") {
  for (const auto& row : schedule_table()) {
    if (!row.asynchronous) continue;
    INFO(row.name);
    // 4 stages: 10 steps take as much longer than 9 as the passes of one do
    const int micro_batches = row.name == "pipedream" ? 1 : 5;
    const PipelineShape s{4, micro_batches, 1};
    CHECK(*Play(row, s, kEqual, 10).run() - *Play(row, s, kEqual, 9).run() == Approx(micro_batches * 3));
    CHECK(*Play(schedule("1f1b"), s, kEqual).run() > micro_batches * 3);
    CHECK(row.idle(s, kEqual) == 0);
  }
}

TEST_CASE("activations that a stage holds, by hand") {
  CHECK(schedule("1f1b").in_flight(0, 4, 8) == 4);
  CHECK(schedule("1f1b").in_flight(3, 4, 8) == 1);
  CHECK(schedule("1f1b").in_flight(0, 4, 2) == 2);
  CHECK(schedule("gpipe").in_flight(3, 4, 8) == 8);
  for (int stage = 0; stage < 4; ++stage) {
    INFO("stage " << stage);
    CHECK(schedule("zb-h1").activations(stage, {4, 8, 1}) == 4);       // as stage 0 of 1F1B, on every stage
    CHECK(schedule("zb-v").activations(stage, {4, 8, 2}) == 8);        // chunks of half the size: as much as stage 0 of 1F1B
    CHECK(schedule("dualpipe").activations(stage, {4, 8, 2}) <= 5);    // p + 1 (DeepSeek-V3, table 2)
    CHECK(schedule("dualpipe-v").activations(stage, {4, 8, 2}) <= 9);  // of 8 stages: 8 + 1, in chunks of half a stage's size
  }
  for (int stage = 0; stage < 4; ++stage) {
    INFO("stage " << stage);
    CHECK(schedule("pipedream").activations(stage, {4, 1, 1}) == 4 - stage);  // one under way for each stage from here on
  }
  // Megatron-LM, SC 2021: (v-1) p + 2 (p - s - 1) + 1 before the first backward pass: 4 + 6 + 1
  CHECK(schedule("interleaved").activations(0, {4, 8, 2}) == 11);
  CHECK(schedule("breadth-first").activations(3, {4, 8, 2}) == 16);  // all 8 micro-batches of both chunks
}

TEST_CASE("activations that a stage holds are those of passes that have begun and are not over, at most") {
  for_all_shapes([](const ScheduleRow& row, const PipelineShape& s) {
    for (int stage = 0; stage < s.stages; ++stage) {
      std::set<std::pair<int, int>> held;  // chunk and micro-batch
      std::size_t most = 0;
      for (const auto& slot : row.order(stage, s)) {
        if (!slot.backward) held.insert({slot.chunk, slot.micro_batch});
        if (slot.backward && slot.part != GradientPart::Input) held.erase({slot.chunk, slot.micro_batch});
        most = std::max(most, held.size());
      }
      INFO(row.name << " stage " << stage << " of " << s.stages << ", " << s.micro_batches << " micro-batches, " << s.chunks << " chunks");
      CHECK(row.activations(stage, s) == (row.asynchronous ? s.stages - stage : static_cast<int>(most)));
    }
  });
}

TEST_CASE("breadth first, a chunk's gradients are complete when the next one's begin") {
  // 2 stages of 3 chunks, 4 micro-batches: 12 passes forward, then chunk 2 has had its last gradient in slot 16, chunk 1 in slot 20
  const auto slots = schedule("breadth-first").order(1, {2, 4, 3});
  REQUIRE(slots.size() == 24);
  CHECK(slots[4] == PipelineSlot{false, 0, 1});
  CHECK(slots[15] == PipelineSlot{true, 3, 2});
  CHECK(slots[19] == PipelineSlot{true, 3, 1});
  // interleaved, the first stage's chunk 2 has its last gradient behind the first ones of chunk 0
  const auto turns = schedule("interleaved").order(0, {2, 4, 3});
  const auto last = std::ranges::find(turns, PipelineSlot{true, 3, 2}), first = std::ranges::find(turns, PipelineSlot{true, 0, 0});
  CHECK(last > first);
}

TEST_CASE("micro-batches under way on a stage have places of their own") {
  for_all_shapes([](const ScheduleRow& row, const PipelineShape& s) {
    if (row.asynchronous) return;  // numbered on from step to step: one place for each that is ahead, and one
    for (int stage = 0; stage < s.stages; ++stage) {
      const int places = row.in_flight(stage, s);
      std::map<int, int> owner, passes;  // by place: the micro-batch; by micro-batch: passes whose last gradient is to come
      bool own = true;
      for (const auto& slot : row.order(stage, s)) {
        const bool last = slot.backward && slot.part != GradientPart::Input;
        passes[slot.micro_batch] += last ? -1 : slot.backward ? 0 : 1;
        auto& holder = owner.try_emplace(slot.micro_batch % places, slot.micro_batch).first->second;
        own = own && (holder == slot.micro_batch || passes[holder] == 0);
        holder = slot.micro_batch;
      }
      INFO(row.name << " stage " << stage << " of " << s.stages << ", " << s.micro_batches << " micro-batches, " << s.chunks << " chunks");
      CHECK(own);
    }
  });
}

TEST_CASE("weights that a stage keeps") {
  CHECK(schedule("1f1b").weight_versions(0, {4, 8, 1}) == 1);
  CHECK(schedule("pipedream").weight_versions(0, {4, 8, 1}) == 4);  // one for each micro-batch under way
  CHECK(schedule("pipedream").weight_versions(3, {4, 8, 1}) == 1);
  CHECK(schedule("pipedream-2bw").weight_versions(0, {4, 8, 1}) == 2);
}

TEST_CASE("parts of the model lie where the placement says") {
  const PipelineShape s{3, 1, 2};
  // there and back: stage 2 has parts 2 and 3
  CHECK(part_of(ChunkPlacement::V, s, 2, 0) == 2);
  CHECK(part_of(ChunkPlacement::V, s, 2, 1) == 3);
  CHECK(part_of(ChunkPlacement::V, s, 0, 1) == 5);
  CHECK(part_of(ChunkPlacement::Looped, s, 0, 1) == 3);
  CHECK(part_of(ChunkPlacement::Both, s, 0, 1) == 2);
}

TEST_CASE("plans that no schedule can play are refused with what would be right") {
  const auto sentences = [](const std::string& plan, int micro_batches = 8) {
    std::string text;
    for (const auto& v : schedule_violations(parse_plan(plan), micro_batches)) text += v.key + ": " + v.problem + " (" + v.remedy + ")\n";
    return text;
  };
  CHECK(sentences("pp=4,schedule=1f1b,interleave=2,micro_batch=1").empty());
  CHECK(sentences("pp=4,schedule=zb-v,micro_batch=1").empty());
  for (const auto& row : schedule_table())
    if (row.name != "pipedream") CHECK(sentences("pp=4,schedule=" + std::string(row.name)).empty());
  CHECK(sentences("pp=4,schedule=pipedream", 1).empty());
  CHECK_THAT(sentences("pp=4,schedule=pipedream", 2), contains("a step has one, not 2 (leave micro_batch out (pipedream-2bw"));
  CHECK_THAT(sentences("pp=4,schedule=pipedream-2bw", 2), contains("from 3 micro-batches on for 4 stages, not 2"));
  CHECK_THAT(sentences("pp=1,schedule=pipedream-2bw"), contains("and there is one (use pp=2 or more)"));
  CHECK_THAT(sentences("pp=4,schedule=dualpipe", 1), contains("a step has only one (use a smaller micro_batch)"));
  CHECK_THAT(sentences("pp=3,schedule=dualpipe"), contains("3 is odd (use an even number of stages)"));
  CHECK_THAT(sentences("pp=4,schedule=gpipe,interleave=2"), contains("interleave: 2 chunks, but schedule gpipe has 1"));
  CHECK_THAT(sentences("pp=1,interleave=2"), contains("use pp=2 or more"));
  CHECK(sentences("pp=2,cuts=a").empty());
  CHECK(sentences("pp=1,cuts=a").empty());  // without effect
  CHECK(sentences("pp=2,interleave=2,cuts=a|b|c").empty());
  CHECK_THAT(sentences("pp=4,cuts=a"), contains("cuts: 1 cuts for pp=4; there must be 3 (leave cuts out"));
  CHECK_THAT(sentences("pp=2,schedule=dualpipe-v,cuts=a"), contains("cuts: 1 cuts for pp=2 with schedule=dualpipe-v; there must be 3"));
  CHECK_THAT(schedule("dualpipe").refusal({3, 8, 2}), contains("3 is odd"));
}

TEST_CASE("an unknown schedule is refused with the known ones") {
  CHECK_THROWS_AS(schedule("zb"), BadInput);
  CHECK_THROWS_WITH(schedule("zb"), contains("'zb'") && contains("known schedules: gpipe, 1f1b, interleaved"));
}
