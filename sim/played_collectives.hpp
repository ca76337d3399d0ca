#pragma once
// Collectives in progress: every rank goes through its steps; a message starts when its sender and its receiver have both reached the
// steps that name it, since it is received in place.

#include <functional>
#include <map>
#include <memory>

#include "plan/collectives/exchange.hpp"
#include "sim/messages.hpp"

namespace rehearsal::sim {

/// The steps of all members, each message known at both of its ends. Copies within a rank's memory take no time and are left out.
struct StepPattern {
  struct Step {
    std::int32_t to = -1, from = -1;
    double send_count = 0, receive_count = 0;    ///< elements
    std::uint32_t received_in = 0, sent_in = 0;  ///< step of the member `to` that receives; step of the member `from` that sends
    bool reduce = false, with_next = false;
  };
  std::vector<std::vector<Step>> members;
};

/// Throws InternalError when a message is sent that is not received.
[[nodiscard]] StepPattern match_steps(int ranks, const std::function<std::vector<plan::CollectiveStep>(int member)>& steps);

/// One collective of one group, as each of its members asks for it.
struct SimulatedCollective {
  const plan::Program* program = nullptr;
  const plan::CollectiveInfo* info = nullptr;
  const plan::Role* role = nullptr;
  plan::CollectiveMember member;
  std::uint32_t sequence = 0;  ///< the how-many-th collective of the group
};

class Collectives {
 public:
  Collectives(SimulatedMessages& messages, FairNetwork& network, BytesPerSecond reduction)
      : messages_(messages), network_(network), reduction_(reduction) {}

  /// A member of `group` arrives. True when it has nothing to do and has ended already.
  bool join(const SimulatedCollective&, const std::vector<int>& group, int position);
  /// A message has arrived. Ranks that have ended are added to `ended`.
  void arrived(const MessagePurpose&, std::vector<int>& ended);
  void reduced(std::uint64_t number, std::vector<int>& ended);

 private:
  struct Member {
    bool joined = false;
    std::uint32_t step = 0, end = 0;  ///< steps under way: the first one, and the one behind the last
    int unfinished = 0;               ///< of their messages and additions
    double adds_until = 0;            ///< one part after the other
  };
  struct Active {
    std::shared_ptr<const StepPattern> pattern;
    SimulatedCollective call;
    std::vector<int> group;
    std::vector<Member> members;
    std::size_t left = 0;
  };
  /// Kind, algorithm, ranks, ranks per node, elements, what is sharded, root; of exchanges also the redistribution, the group and the
  /// micro-batch.
  using PatternKey =
      std::tuple<plan::CollectiveKind, std::string_view, int, int, std::int64_t, std::vector<plan::DealtOut>, int, const void*, int, int>;

  std::uint32_t find_or_open(const SimulatedCollective&, const std::vector<int>& group);
  std::shared_ptr<const StepPattern> pattern(const SimulatedCollective&, const std::vector<int>& group);
  /// True when there is no step left.
  bool begin_step(std::uint32_t which, std::uint32_t position);
  [[nodiscard]] bool is_at(const Active&, int position, std::uint32_t step) const;
  void send(std::uint32_t which, std::uint32_t sender, std::uint32_t number);
  void part_ended(std::uint32_t which, std::uint32_t position, std::vector<int>& ended);
  void leave(std::uint32_t which);

  SimulatedMessages& messages_;
  FairNetwork& network_;
  BytesPerSecond reduction_;
  std::vector<Active> active_;
  std::vector<std::uint32_t> unused_;
  std::map<std::tuple<std::uint32_t, int, std::uint32_t>, std::uint32_t> open_;  ///< axis, first rank, sequence
  std::map<PatternKey, std::weak_ptr<const StepPattern>> patterns_;
};

}  // namespace rehearsal::sim
