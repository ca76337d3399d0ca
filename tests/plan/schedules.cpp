#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/random.hpp"
#include "plan/schedules/schedule.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

constexpr double kForward = 1.0, kBackward = 2.0;

enum class Sends { Buffered, Blocking };

/// Plays the slots of all stages with free messages. Blocking: a stage that has run a slot waits, before it runs the next one, until the
/// receiver has come to the slot that takes the result; meanwhile it may itself be handed the input of its next slot.
class Play {
 public:
  Play(const ScheduleRow& row, int stages, int micro_batches, Sends sends) : stages_(static_cast<std::size_t>(stages)), sends_(sends) {
    for (int s = 0; s < stages; ++s) stages_[static_cast<std::size_t>(s)].slots = row.slots(s, stages, micro_batches);
  }

  /// Time of the last slot's end; nothing when stages wait for each other for ever.
  std::optional<double> run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) moved = hand_over(s) || compute(s) || moved;
    }
    double end = 0.0;
    for (const auto& stage : stages_) {
      if (stage.next < stage.slots.size() || stage.result) return std::nullopt;
      end = std::max(end, stage.clock);
    }
    return end;
  }

 private:
  struct Stage {
    std::vector<PipelineSlot> slots;
    std::size_t next = 0;
    std::optional<PipelineSlot> result;            ///< of the previous slot, not handed over yet
    std::map<std::pair<bool, int>, double> input;  ///< when the input of a slot came
    double clock = 0.0;
  };

  bool hand_over(std::size_t s) {
    auto& me = stages_[s];
    if (!me.result) return false;
    auto& peer = stages_[me.result->backward ? s - 1 : s + 1];
    const bool waits = peer.next < peer.slots.size() && peer.slots[peer.next].backward == me.result->backward &&
                       peer.slots[peer.next].micro_batch == me.result->micro_batch;
    if (sends_ == Sends::Blocking && !waits) return false;
    peer.input[{me.result->backward, me.result->micro_batch}] = me.clock;
    me.result.reset();
    return true;
  }

  bool compute(std::size_t s) {
    auto& me = stages_[s];
    if (me.result || me.next == me.slots.size()) return false;
    const auto slot = me.slots[me.next];
    const bool last_in_its_way = slot.backward ? s == 0 : s + 1 == stages_.size();
    if (slot.backward ? s + 1 < stages_.size() : s > 0) {
      const auto input = me.input.find({slot.backward, slot.micro_batch});
      if (input == me.input.end()) return false;
      me.clock = std::max(me.clock, input->second);
    }
    me.clock += slot.backward ? kBackward : kForward;
    if (!last_in_its_way) me.result = slot;
    ++me.next;
    return true;
  }

  std::vector<Stage> stages_;
  Sends sends_;
};

void check_slots(const ScheduleRow& row, int stage, int stages, int micro_batches) {
  const auto slots = row.slots(stage, stages, micro_batches);
  REQUIRE(slots.size() == 2 * static_cast<std::size_t>(micro_batches));
  std::vector<int> forwards(static_cast<std::size_t>(micro_batches)), backwards(forwards);
  int held = 0, most = 0;
  for (const auto& slot : slots) {
    const auto m = static_cast<std::size_t>(slot.micro_batch);
    REQUIRE(m < forwards.size());
    if (slot.backward) REQUIRE(forwards[m] == 1);
    ++(slot.backward ? backwards : forwards)[m];
    held += slot.backward ? -1 : 1;
    most = std::max(most, held);
  }
  CHECK(std::ranges::all_of(forwards, [](int n) { return n == 1; }));
  CHECK(std::ranges::all_of(backwards, [](int n) { return n == 1; }));
  CHECK(most == row.in_flight(stage, stages, micro_batches));
}

}  // namespace

TEST_CASE("every micro-batch goes forward once, then backward once, and no more are held than promised") {
  for (const auto& row : schedule_table())
    for (int stages = 1; stages <= 9; ++stages)
      for (int micro_batches = 1; micro_batches <= 12; ++micro_batches)
        for (int stage = 0; stage < stages; ++stage) {
          INFO(row.name << " stage " << stage << " of " << stages << ", " << micro_batches << " micro-batches");
          check_slots(row, stage, stages, micro_batches);
        }
}

TEST_CASE("1f1b holds at most as many micro-batches as stages follow") {
  const auto& row = schedule("1f1b");
  CHECK(row.in_flight(0, 4, 8) == 4);
  CHECK(row.in_flight(3, 4, 8) == 1);
  CHECK(row.in_flight(0, 4, 2) == 2);
  CHECK(schedule("gpipe").in_flight(3, 4, 8) == 8);
}

TEST_CASE("stages that wait for each other always come to an end") {
  for (const auto& row : schedule_table())
    for (std::uint64_t i = 0; i < 100; ++i) {
      const int stages = 1 + static_cast<int>(random_uniform(7, 0, i) * 16);
      const int micro_batches = 1 + static_cast<int>(random_uniform(7, 1, i) * 40);
      INFO(row.name << " with " << stages << " stages and " << micro_batches << " micro-batches");
      CHECK(Play(row, stages, micro_batches, Sends::Blocking).run().has_value());
      CHECK(Play(row, stages, micro_batches, Sends::Buffered).run().has_value());
    }
}

TEST_CASE("the play notices stages that wait for each other for ever") {
  // stage 1 begins with micro-batch 1, which stage 0 starts only after micro-batch 0 has come back
  const ScheduleRow crossed{"crossed", "",
                            [](int stage, int, int) {
                              if (stage == 0) return std::vector<PipelineSlot>{{false, 0}, {true, 0}, {false, 1}, {true, 1}};
                              return std::vector<PipelineSlot>{{false, 1}, {false, 0}, {true, 1}, {true, 0}};
                            },
                            nullptr, nullptr};
  CHECK_FALSE(Play(crossed, 2, 2, Sends::Buffered).run().has_value());
}

TEST_CASE("the bubble of the closed form is the bubble of the played schedule") {
  for (const auto& row : schedule_table())
    for (int stages = 1; stages <= 8; ++stages)
      for (const int micro_batches : {1, 2, 3, 7, 8, 16, 33}) {
        const double ideal = micro_batches * (kForward + kBackward);
        const double end = Play(row, stages, micro_batches, Sends::Buffered).run().value();
        INFO(row.name << " with " << stages << " stages and " << micro_batches << " micro-batches");
        CHECK(end / ideal - 1.0 == Approx(row.bubble(stages, micro_batches)).margin(1e-12));
      }
  CHECK(schedule("1f1b").bubble(4, 8) == Approx(3.0 / 8.0));  // 3 stages' fill and drain against 8 micro-batches
}

TEST_CASE("an unknown schedule is refused with the known ones") {
  CHECK_THROWS_AS(schedule("zb"), BadInput);
  CHECK_THROWS_WITH(schedule("zb"), contains("'zb'") && contains("gpipe, 1f1b"));
}
