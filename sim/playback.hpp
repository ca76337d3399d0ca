#pragma once
// A Program played rank by rank on a network, with the meaning that the closed form gives it: the instructions of a stream run in
// order, each begins when those that it names have ended. A point-to-point message leaves as soon as its Send begins (the receiver
// keeps a buffer for it); the steps of a collective wait for each other (see sim/played_collectives.hpp).

#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "predict/group_links.hpp"
#include "predict/playing.hpp"
#include "sim/played_collectives.hpp"
#include "sim/priced_messages.hpp"
#include "sim/timetable.hpp"

namespace rehearsal::sim {

struct PlaybackOptions {
  std::vector<int> ranks;                ///< those that are played
  std::vector<int> recorded;             ///< those of them whose timeline is kept
  bool closed_form_collectives = false;  ///< collectives take the time of their formula: for when their groups are not all played
};

/// Plays once.
class Playback final : public Listener {
 public:
  Playback(const predict::EvaluationRequest&, PlaybackOptions, Routes&, FairNetwork&);

  /// Throws InternalError when instructions wait for each other.
  void play();

  [[nodiscard]] double end(int rank) const;
  /// Seconds in which the rank did not wait for others.
  [[nodiscard]] double active(int rank) const { return state(rank).spent.unwaiting(); }
  /// Of a rank that was played: what it computed, and what it waited for.
  [[nodiscard]] predict::RankAccount account(int rank) const;
  [[nodiscard]] std::vector<predict::TimedInstruction> timeline(int rank) const;
  [[nodiscard]] std::int64_t events() const { return events_ + messages_.count() + priced_.count(); }
  [[nodiscard]] double message_joules() const { return messages_.joules(); }

  void happened(Token) override;

 private:
  struct Times {
    double begin = 0, end = 0;
    double issue_begin = 0, issue_end = 0;  ///< of the host
  };
  struct StreamState {
    std::size_t next = 0;  ///< into the role's queue
    double free = 0;       ///< when its last run ends
    double began = 0;      ///< the run at `next`, where `busy`
    double met = 0;        ///< when the last of unlike ranks came to that run, a collective; 0: it waited for none
    bool busy = false;     ///< until something happens
  };
  struct RankState {
    const Timetable* table = nullptr;
    std::array<StreamState, kStreams> streams;
    std::vector<bool> ended;                 ///< by run; of awaited ones
    std::vector<std::uint32_t> collectives;  ///< begun so far, by axis
    std::size_t collective_stream = 0;       ///< of the one in progress
    predict::HostClock host{0};
    std::optional<predict::SampleClock> samples;
    std::map<std::uint32_t, double> received;  ///< messages that nothing has waited for yet: run of the Receive -> when it ended
    std::size_t announced = 0;                 ///< runs of the stream of collectives that have begun or wait for it alone
    double messages_until = 0;                 ///< when those will be over
    predict::RankAccount spent;                ///< without what it computed
    std::vector<Times> times;                  ///< by run; only where recorded
  };
  /// Sender, receiver, channel, micro-batch.
  using Address = std::tuple<int, int, std::uint32_t, int>;
  struct PendingMessage {
    bool arrived = false;
    std::optional<std::size_t> expected;  ///< its Receive is next on this stream and has nothing else to wait for
  };
  struct RankStream {
    int rank;
    std::size_t stream;
  };
  struct EarlyMember {
    RankStream at;
    std::size_t run;  ///< the collective, in that stream's queue
  };
  struct Group {
    std::vector<int> ranks;
    int per_node = 0;                                         ///< ranks on the node of the first one
    bool alike = true;                                        ///< all do the same, and are equally quick
    std::map<std::uint32_t, std::vector<EarlyMember>> early;  ///< by number of a collective along the axis: who has come to it
  };

  [[nodiscard]] RankState& state(int rank) { return ranks_[static_cast<std::size_t>(slot_of_[static_cast<std::size_t>(rank)])]; }
  [[nodiscard]] const RankState& state(int rank) const {
    return ranks_[static_cast<std::size_t>(slot_of_[static_cast<std::size_t>(rank)])];
  }
  [[nodiscard]] const InstructionRun& head(const RankState&, std::size_t stream) const;
  void advance(int rank);
  bool advance_stream(RankStream);
  [[nodiscard]] bool ready(const RankState&, const InstructionRun&) const;
  [[nodiscard]] bool leaves_to_others(int rank, const InstructionRun&) const;
  void begin(RankStream, const InstructionRun&);
  void compute(RankStream, const InstructionRun&);
  [[nodiscard]] double launch(RankStream, const InstructionRun&, double begin);
  void announce_collectives(RankState&);
  void send(RankStream, const InstructionRun&);
  void send_bytes(SimulatedMessages::Ends, const plan::MessageInfo&, double bytes, const MessagePurpose&);
  void receive(RankStream, const InstructionRun&);
  void collect(RankStream, const InstructionRun&);
  void collect_priced(RankStream, const InstructionRun&);
  void meet(RankStream, std::size_t axis);
  void priced_ended(std::uint64_t number);
  void end_run(RankStream);
  void message_arrived(const MessagePurpose&);
  void collective_ended(int rank);
  [[nodiscard]] double bytes_of(const RankState&, const InstructionRun&) const;
  [[nodiscard]] Group& group(int rank, std::size_t axis);
  [[nodiscard]] double closed_form_seconds(const plan::CollectiveInfo&, const plan::Role&, const plan::CollectiveMember&);

  const predict::EvaluationRequest& request_;
  PlaybackOptions options_;
  Routes& routes_;
  predict::GroupLinks links_;
  predict::MessageTraffic traffic_;
  FairNetwork& network_;
  SimulatedMessages messages_;
  Collectives collectives_;
  PricedMessages priced_;
  std::vector<Timetable> tables_;  ///< by role; empty where no rank of it is played
  std::vector<RankState> ranks_;   ///< in order of PlaybackOptions::ranks
  std::vector<int> slot_of_;       ///< by rank, -1 where not played
  std::map<Address, PendingMessage> pending_;
  struct OnItsWay {
    Address address;
    std::uint32_t sender = 0;  ///< stream: where processors move messages themselves, that of their kernels
  };
  std::vector<OnItsWay> on_their_way_;  ///< messages, by MessagePurpose::which
  std::vector<std::uint32_t> unused_addresses_;
  std::map<std::pair<std::size_t, int>, Group> groups_;  ///< by axis and first rank
  std::vector<int> ended_;
  std::int64_t events_ = 0;
};

}  // namespace rehearsal::sim
