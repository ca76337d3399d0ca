// The step's time from closed forms: every role's streams are played in order, messages and collectives take the time of their
// formula, and different messages do not disturb each other.
// One rank of every stage stands for the others, of one replica, or of one of every kind where replicas differ: these meet in the
// collectives between replicas.

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "plan/collectives/exchange.hpp"
#include "platforms/fabric.hpp"
#include "predict/group_links.hpp"
#include "predict/playing.hpp"
#include "predict/steady.hpp"

namespace rehearsal::predict {
namespace {

struct MessageKey {
  std::size_t kind;  ///< of replicas
  int from_stage, to_stage;
  std::uint32_t channel;
  int micro_batch;
  friend auto operator<=>(const MessageKey&, const MessageKey&) = default;
};

struct Arrival {
  double sent = 0, arrived = 0;
};

/// A collective between replicas of several kinds: the players of a stage come to it one by one, and it begins with the last.
struct PricedMeeting {
  std::size_t here = 0;
  double begin = 0, seconds = 0;
};
/// Stage, axis, and which of the stage's collectives along it.
using MeetingKey = std::tuple<int, std::size_t, std::size_t>;

/// What the players of one evaluation share.
struct Play {
  const EvaluationRequest& request;
  const platforms::Fabric& fabric;
  GroupLinks links;
  MessageTraffic traffic;
  std::vector<std::vector<int>> kinds;  ///< of replicas: a rank for every stage
  std::size_t micro_batches;            ///< that have a number
  std::map<MessageKey, Arrival> messages;
  std::map<MeetingKey, PricedMeeting> meetings;
};

/// One rank's way through its slots.
class Player {
 public:
  Player(Play& play, std::size_t kind, int rank)
      : play_(play),
        kind_(kind),
        rank_(rank),
        role_(play.request.program.role(rank)),
        costs_(play.request.costs.roles[play.request.program.role_of[static_cast<std::size_t>(rank)]]),
        host_(play.request.costs.interference),
        samples_(play.request, role_),
        met_(play.request.program.axes.size()) {
    for (const auto& body : role_.bodies) finished_.emplace_back(body.instructions.size(), std::vector<double>(play.micro_batches, 0.0));
  }

  /// Runs until the end or until a message is missing. True when something was done.
  bool advance() {
    bool moved = false;
    while (slot_ < role_.slots.size()) {
      const auto& body = role_.bodies[slot().body];
      while (instruction_ < body.instructions.size()) {
        if (!play_one(body.instructions[instruction_])) return moved;
        ++instruction_;
        moved = true;
      }
      instruction_ = 0;
      ++slot_;
    }
    return moved;
  }

  [[nodiscard]] bool ended() const { return slot_ == role_.slots.size(); }
  [[nodiscard]] double end() const { return *std::max_element(stream_free_.begin(), stream_free_.end()); }
  [[nodiscard]] const RankAccount& account() const { return account_; }
  [[nodiscard]] std::vector<TimedInstruction> take_timeline() { return std::move(timeline_); }
  [[nodiscard]] std::int64_t events() const { return events_; }

 private:
  [[nodiscard]] const plan::Slot& slot() const { return role_.slots[slot_]; }
  [[nodiscard]] int micro_batch() const { return slot().micro_batch; }

  [[nodiscard]] double ready(const plan::Instruction& i, plan::Stream stream) const {
    double at = stream_free_[static_cast<std::size_t>(stream)];
    for (const auto& d : i.after) at = std::max(at, finished(d));
    return at;
  }
  /// When what an instruction of this slot names had ended.
  [[nodiscard]] double finished(const plan::Dependency& d) const {
    const auto m = micro_batch_of(play_.request.program, role_, slot(), d);
    return finished_[d.body][d.instruction][static_cast<std::size_t>(m)];
  }

  /// `met`: when the last rank came to a collective of unlike ones.
  void finish(plan::Stream stream, double begin, double end, double met = 0) {
    ended_at(stream, end);
    account_.was_active(begin, end, met);
    ++events_;
    note(begin, end, false);
  }
  void ended_at(plan::Stream stream, double end) {
    stream_free_[static_cast<std::size_t>(stream)] = end;
    finished_[slot().body][instruction_][static_cast<std::size_t>(micro_batch())] = end;
  }

  void note(double begin, double end, bool issue) {
    if (play_.request.keep_timeline)
      timeline_.push_back({slot().body, static_cast<std::uint32_t>(instruction_), micro_batch(), begin, end, end - begin, issue});
  }

  bool play_one(const plan::Instruction& i) {
    if (!plan::runs(play_.request.program, role_, i, micro_batch(), play_.request.kind)) return true;
    if (!plan::takes_part(play_.request.program, rank_, i)) {
      ended_at(i.stream, ready(i, i.stream));
      return true;
    }
    switch (i.kind) {
      case plan::InstructionKind::Send:
        send(i);
        return true;
      case plan::InstructionKind::Receive:
        return receive(i);
      case plan::InstructionKind::Collective:
        return collect(i);
      default:
        compute(i);
        return true;
    }
  }

  [[nodiscard]] double& free(plan::Stream stream) { return stream_free_[static_cast<std::size_t>(stream)]; }

  void compute(const plan::Instruction& i) {
    const auto stream = stream_on(play_.request.model, i);
    const double begin = ready(i, stream);
    if (stream != plan::Stream::Compute)
      return finish(stream, begin, begin + estimate_in(costs_, role_, slot(), instruction_).seconds.value());
    wait_for_stages(i);
    account_.ran(role_.bodies[slot().body], i, estimate_in(costs_, role_, slot(), instruction_));
    const double samples = samples_.begin(slot(), begin);
    if (samples > begin) wait_for_samples(begin, samples);
    launch(samples);
    if (samples > begin && i.kind == plan::InstructionKind::Load && !timeline_.empty()) timeline_.back().begin = begin;
  }

  void wait_for_samples(double from, double until) {
    host_.wait(until);
    account_.waited_for_input(from, until);
  }

  /// The host waits for messages from other stages, as the device does.
  void wait_for_stages(const plan::Instruction& i) {
    double arrived = 0;
    for (const auto& d : i.after)
      if (role_.bodies[d.body].instructions[d.instruction].kind == plan::InstructionKind::Receive) arrived = std::max(arrived, finished(d));
    host_.wait(arrived);
  }

  /// What the host issues to the compute stream.
  void launch(double begin) {
    const auto run = host_.launch(launch_of(costs_, role_, slot(), instruction_), begin, free(plan::Stream::Collective));
    account_.idled(begin, run.begin);
    if (run.issue_end > run.issue_begin) note(run.issue_begin, run.issue_end, true);
    finish(plan::Stream::Compute, run.begin, run.end);
  }

  /// False while players of other kinds of replicas are still to come.
  bool collect(const plan::Instruction& i) {
    const auto stream = stream_on(play_.request.model, i);
    const double begin = ready(i, stream);
    if (play_.request.costs.with_messages && stream == plan::Stream::Compute) {
      wait_for_stages(i);
      launch(begin);
      return true;
    }
    const auto axis = role_.collectives[static_cast<std::size_t>(i.collective)].axis;
    if (!between_kinds(axis)) {
      finish(stream, begin, begin + collective_seconds(i));
      return true;
    }
    auto& meeting = play_.meetings[{role_.stage, axis, met_[axis]}];
    if (!arrived_) {
      arrived_ = true;
      ++meeting.here;
      meeting.begin = std::max(meeting.begin, begin);
      meeting.seconds = std::max(meeting.seconds, collective_seconds(i));
    }
    if (meeting.here < play_.kinds.size()) return false;
    arrived_ = false;
    ++met_[axis];
    finish(stream, begin, meeting.begin + meeting.seconds, meeting.begin);
    return true;
  }

  /// Do groups along an axis of the mesh have ranks of several replicas?
  [[nodiscard]] bool between_kinds(std::size_t axis) const {
    const auto& axes = play_.request.program.axes;
    return play_.kinds.size() > 1 && ("." + axes[axis].name + ".").find(".dp.") != std::string::npos;
  }

  [[nodiscard]] double collective_seconds(const plan::Instruction& i) const {
    const auto& r = play_.request;
    if (r.costs.with_messages) return estimate_in(costs_, role_, slot(), instruction_).seconds.value();
    const auto& info = role_.collectives[static_cast<std::size_t>(i.collective)];
    const auto& links = play_.links.of({info.axis, rank_});
    const auto element = static_cast<std::int64_t>(size_of(role_.buffers[i.outputs.front()].dtype));
    const auto count = plan::message_bytes(role_, i, variant_in(role_, slot())) / element;
    const plan::CollectiveMember member{rank_, micro_batch(), count, static_cast<double>(element), links.ranks_per_node};
    return plan::collective_time(r.program, info, role_, member, links).value() * r.model.communication_factor();
  }

  [[nodiscard]] double transfer_seconds(const plan::Instruction& i, const plan::MessageInfo& info) const {
    if (play_.request.costs.with_messages) return estimate_in(costs_, role_, slot(), instruction_).seconds.value();
    const auto path = play_.traffic.path(rank_, info);
    const Bytes size(static_cast<double>(plan::message_bytes(role_, i, variant_in(role_, slot()))));
    return (path.latency + size / path.bandwidth).value() * play_.request.model.communication_factor();
  }

  void send(const plan::Instruction& i) {
    const auto& info = role_.messages[static_cast<std::size_t>(i.message)];
    const auto stream = stream_on(play_.request.model, i);
    const double begin = ready(i, stream);
    const double seconds = transfer_seconds(i, info);
    play_.messages[{kind_, role_.stage, role_.stage + info.stage_offset, info.channel, micro_batch()}] = {begin, begin + seconds};
    finish(stream, begin, begin + seconds);
  }

  bool receive(const plan::Instruction& i) {
    const auto& info = role_.messages[static_cast<std::size_t>(i.message)];
    const auto at = play_.messages.find({kind_, role_.stage + info.stage_offset, role_.stage, info.channel, micro_batch()});
    if (at == play_.messages.end()) return false;
    const double begin = std::max(ready(i, i.stream), at->second.sent);
    finish(i.stream, begin, std::max(begin, at->second.arrived));
    return true;
  }

  Play& play_;
  std::size_t kind_;
  int rank_;
  const plan::Role& role_;
  const RoleCosts& costs_;
  HostClock host_;
  SampleClock samples_;
  std::vector<std::size_t> met_;  ///< by axis: meetings that are over
  bool arrived_ = false;          ///< at the next one
  std::size_t slot_ = 0, instruction_ = 0;
  std::array<double, static_cast<std::size_t>(plan::Stream::Count)> stream_free_{};
  std::vector<std::vector<std::vector<double>>> finished_;  ///< [body][instruction][micro-batch]
  RankAccount account_;
  std::vector<TimedInstruction> timeline_;
  std::int64_t events_ = 0;
};

void play_all(std::vector<Player>& players) {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& p : players) moved = p.advance() || moved;
  }
  for (const auto& p : players) ensure(p.ended(), "a program whose messages do not match was played");
}

class ClosedForm final : public StepEvaluator {
 public:
  [[nodiscard]] std::string_view name() const override { return "closed"; }

  [[nodiscard]] StepCost evaluate(const EvaluationRequest& request) override { return step_among_steps(request, played); }

 private:
  static StepCost played(const EvaluationRequest& request) {
    const platforms::Fabric fabric(request.platform);
    Play play{request,
              fabric,
              GroupLinks(request.program, request.platform, fabric, request.model),
              MessageTraffic(request.program, fabric),
              kinds_of_replicas(request.program, request.costs, request.platform),
              static_cast<std::size_t>(numbered_micro_batches(request.program)),
              {},
              {}};
    std::vector<Player> players;
    std::vector<int> ranks;
    for (std::size_t kind = 0; kind < play.kinds.size(); ++kind)
      for (const int rank : play.kinds[kind]) players.emplace_back(play, kind, rank), ranks.push_back(rank);
    play_all(players);
    std::vector<RankEnd> ends;
    for (std::size_t n = 0; n < players.size(); ++n)
      ends.push_back({ranks[n], players[n].end(), players[n].account().unwaiting(), players[n].account().busy()});
    StepCost cost;
    set_step(request, ends, players[step_end(ends).limiting].account(), cost);
    for (std::size_t n = 0; n < players.size(); ++n) {
      cost.busy_seconds.push_back(players[n].account().busy());
      cost.events += players[n].events();
      if (request.keep_timeline && n < play.kinds.front().size()) cost.timeline.push_back(players[n].take_timeline());
    }
    stretch(cost.timeline, request.model.composition_factor());
    const auto like = players_like(request.program, ranks);
    set_device_energy(
        request, [&](int rank) { return cost.busy_seconds[like[request.program.role_of[static_cast<std::size_t>(rank)]]]; }, cost);
    return cost;
  }

  /// By role: the first player that has it, or the first of its stage.
  static std::vector<std::size_t> players_like(const plan::Program& program, const std::vector<int>& players) {
    std::map<std::uint32_t, std::size_t> of_role;
    std::map<int, std::size_t> of_stage;
    for (std::size_t n = 0; n < players.size(); ++n) {
      of_role.try_emplace(program.role_of[static_cast<std::size_t>(players[n])], n);
      of_stage.try_emplace(program.role(players[n]).stage, n);
    }
    std::vector<std::size_t> like;
    for (std::uint32_t role = 0; role < program.roles.size(); ++role) {
      const auto own = of_role.find(role);
      like.push_back(own != of_role.end() ? own->second : of_stage.at(program.roles[role].stage));
    }
    return like;
  }
};

}  // namespace

std::unique_ptr<StepEvaluator> closed_form_evaluator() { return std::make_unique<ClosedForm>(); }

}  // namespace rehearsal::predict
