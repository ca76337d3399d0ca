// The step's time from closed forms: every role's streams are played in order, messages and collectives take the time of their
// formula, and different messages do not disturb each other.
// One replica stands for all (the largest, which is the slowest), one rank for every stage.

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "platforms/fabric.hpp"
#include "plan/step_cost.hpp"

namespace rehearsal::plan {
namespace {

struct MessageKey {
  int from_stage, to_stage;
  std::uint32_t channel;
  int micro_batch;
  friend auto operator<=>(const MessageKey&, const MessageKey&) = default;
};

struct Arrival {
  double sent = 0, arrived = 0;
};

/// What the players of one evaluation share.
struct Play {
  const EvaluationRequest& request;
  platforms::Fabric fabric;
  std::vector<int> rank_of_stage;
  std::map<MessageKey, Arrival> messages;
};

/// One rank's way through its slots.
class Player {
 public:
  Player(Play& play, int rank) : play_(play), rank_(rank), role_(play.request.program.role(rank)) {
    for (const auto& body : role_.bodies) finished_.emplace_back(body.instructions.size(), std::vector<double>(static_cast<std::size_t>(play.request.program.micro_batches), 0.0));
  }

  /// Runs until the end or until a message is missing. True when something was done.
  bool advance() {
    bool moved = false;
    while (slot_ < role_.slots.size()) {
      const auto& body = role_.bodies[role_.slots[slot_].body];
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
  [[nodiscard]] double compute_busy() const { return compute_busy_; }
  [[nodiscard]] double waited_for_messages() const { return waited_; }
  [[nodiscard]] double optimizer() const { return optimizer_; }
  [[nodiscard]] double loading() const { return loading_; }
  [[nodiscard]] double communication() const { return communication_; }
  [[nodiscard]] const costmodel::Total& computed() const { return computed_; }
  [[nodiscard]] std::vector<TimedInstruction> take_timeline() { return std::move(timeline_); }
  [[nodiscard]] std::int64_t events() const { return events_; }
  [[nodiscard]] double pipeline_wait() const { return pipeline_wait_; }

 private:
  [[nodiscard]] int micro_batch() const { return role_.slots[slot_].micro_batch; }
  [[nodiscard]] std::size_t variant() const {
    const auto& body = role_.bodies[role_.slots[slot_].body];
    return per_micro_batch(body.kind) ? role_.variant_of[static_cast<std::size_t>(micro_batch())] : 0;
  }

  /// Messages moved by the computing cores themselves occupy the compute stream.
  [[nodiscard]] Stream stream_of(const Instruction& i) const {
    const bool communicates = i.kind == InstructionKind::Collective || i.kind == InstructionKind::Send;
    return communicates && play_.request.model.profile().host_progressed ? Stream::Compute : i.stream;
  }

  [[nodiscard]] double ready(const Instruction& i, Stream stream) const {
    double at = stream_free_[static_cast<std::size_t>(stream)];
    for (const auto& d : i.after) {
      const bool same = per_micro_batch(role_.bodies[d.body].kind) && per_micro_batch(role_.bodies[role_.slots[slot_].body].kind);
      const auto m = same ? micro_batch() : per_micro_batch(role_.bodies[d.body].kind) ? play_.request.program.micro_batches - 1 : 0;
      at = std::max(at, finished_[d.body][d.instruction][static_cast<std::size_t>(m)]);
    }
    return at;
  }

  void finish(Stream stream, double begin, double end) {
    stream_free_[static_cast<std::size_t>(stream)] = end;
    finished_[role_.slots[slot_].body][instruction_][static_cast<std::size_t>(micro_batch())] = end;
    ++events_;
    if (play_.request.keep_timeline) timeline_.push_back({role_.slots[slot_].body, static_cast<std::uint32_t>(instruction_), micro_batch(), begin, end, end - begin});
  }

  bool play_one(const Instruction& i) {
    if (!runs(play_.request.program, i, micro_batch())) return true;
    switch (i.kind) {
      case InstructionKind::Send: send(i); return true;
      case InstructionKind::Receive: return receive(i);
      case InstructionKind::Collective: collect(i); return true;
      default: compute(i); return true;
    }
  }

  void compute(const Instruction& i) {
    const auto role_index = play_.request.program.role_of[static_cast<std::size_t>(rank_)];
    const auto& by_variant = play_.request.costs.roles[role_index].seconds[role_.slots[slot_].body][instruction_];
    const auto& estimate = by_variant[std::min(variant(), by_variant.size() - 1)];
    const double free = stream_free_[static_cast<std::size_t>(Stream::Compute)];
    const double begin = ready(i, Stream::Compute);
    waited_ += begin - free;
    if (begin > free && waits_for_stage(i)) pipeline_wait_ += begin - free;
    const double seconds = estimate.seconds.value();
    compute_busy_ += seconds;
    if (role_.bodies[role_.slots[slot_].body].kind == BodyKind::Update && i.phase == graph::Phase::Update) optimizer_ += seconds;
    if (i.kind == InstructionKind::Load) loading_ += seconds;
    computed_.add(estimate);
    finish(Stream::Compute, begin, begin + seconds);
  }

  [[nodiscard]] bool waits_for_stage(const Instruction& i) const {
    return std::any_of(i.after.begin(), i.after.end(), [&](const Dependency& d) { return role_.bodies[d.body].instructions[d.instruction].kind == InstructionKind::Receive; });
  }

  void collect(const Instruction& i) {
    const auto& r = play_.request;
    const auto& info = role_.collectives[static_cast<std::size_t>(i.collective)];
    const auto links = collective_links(r.program, r.platform, play_.fabric, r.model, {info.axis, rank_});
    const Bytes size(static_cast<double>(message_bytes(role_, i, variant())));
    const auto seconds = collective(info.kind, info.algorithm).closed_form(r.program.axes[info.axis].size, size, links).value() * r.model.communication_factor();
    const auto stream = stream_of(i);
    const double begin = ready(i, stream);
    communication_ += seconds;
    finish(stream, begin, begin + seconds);
  }

  [[nodiscard]] double transfer_seconds(const Instruction& i, int other) const {
    const auto path = play_.fabric.path(rank_, other);
    const Bytes size(static_cast<double>(message_bytes(role_, i, variant())));
    return (path.latency + size / path.bandwidth).value() * play_.request.model.communication_factor();
  }

  void send(const Instruction& i) {
    const auto& info = role_.messages[static_cast<std::size_t>(i.message)];
    const auto stream = stream_of(i);
    const double begin = ready(i, stream);
    const double seconds = transfer_seconds(i, peer(play_.request.program, rank_, info));
    communication_ += seconds;
    play_.messages[{role_.stage, role_.stage + info.stage_offset, info.channel, micro_batch()}] = {begin, begin + seconds};
    finish(stream, begin, begin + seconds);
  }

  bool receive(const Instruction& i) {
    const auto& info = role_.messages[static_cast<std::size_t>(i.message)];
    const auto at = play_.messages.find({role_.stage + info.stage_offset, role_.stage, info.channel, micro_batch()});
    if (at == play_.messages.end()) return false;
    const double begin = std::max(ready(i, i.stream), at->second.sent);
    finish(i.stream, begin, std::max(begin, at->second.arrived));
    return true;
  }

  Play& play_;
  int rank_;
  const Role& role_;
  std::size_t slot_ = 0, instruction_ = 0;
  std::array<double, static_cast<std::size_t>(Stream::Count)> stream_free_{};
  std::vector<std::vector<std::vector<double>>> finished_;  ///< [body][instruction][micro-batch]
  double compute_busy_ = 0, waited_ = 0, pipeline_wait_ = 0, optimizer_ = 0, loading_ = 0, communication_ = 0;
  costmodel::Total computed_;
  std::vector<TimedInstruction> timeline_;
  std::int64_t events_ = 0;
};

/// One rank per stage, of the replica with most samples.
std::vector<int> representatives(const Program& program) {
  std::map<int, std::pair<std::int64_t, int>> best;
  for (int rank = 0; rank < program.ranks; ++rank) {
    std::int64_t own = 0;
    for (int m = 0; m < program.micro_batches; ++m) own += samples(program, rank, m).count;
    auto& entry = best.try_emplace(program.role(rank).stage, own, rank).first->second;
    if (own > entry.first) entry = {own, rank};
  }
  std::vector<int> ranks;
  for (const auto& [stage, entry] : best) ranks.push_back(entry.second);
  return ranks;
}

void play_all(std::vector<Player>& players) {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& p : players) moved = p.advance() || moved;
  }
  for (const auto& p : players) ensure(p.ended(), "a program whose messages do not match was played");
}

Breakdown breakdown_of(const Player& critical, double step) {
  Breakdown b;
  b.bubble = Seconds(critical.pipeline_wait());
  b.optimizer = Seconds(critical.optimizer());
  b.io = Seconds(critical.loading());
  b.compute = Seconds(critical.compute_busy() - critical.optimizer() - critical.loading());
  b.exposed_communication = Seconds(std::max(0.0, step - critical.compute_busy() - critical.pipeline_wait()));
  return b;
}

class ClosedForm final : public StepEvaluator {
 public:
  [[nodiscard]] std::string_view name() const override { return "closed"; }

  [[nodiscard]] StepCost evaluate(const EvaluationRequest& request) override {
    Play play{request, platforms::Fabric(request.platform), representatives(request.program), {}};
    std::vector<Player> players;
    for (int rank : play.rank_of_stage) players.emplace_back(play, rank);
    play_all(players);
    const auto last = std::max_element(players.begin(), players.end(), [](const Player& a, const Player& b) { return a.end() < b.end(); });
    // Every rank of a step waits for the slowest one: a stage that ends early is not the critical one, but the busiest is what fills the time.
    StepCost cost;
    cost.step = Seconds(last->end());
    cost.breakdown = breakdown_of(*last, last->end());
    add_errors(request, *last, cost);
    for (auto& p : players) {
      cost.busy_seconds.push_back(p.compute_busy());
      cost.events += p.events();
      if (request.keep_timeline) cost.timeline.push_back(p.take_timeline());
    }
    cost.devices_energy = device_energy(request, play, cost);
    return cost;
  }

 private:
  static void add_errors(const EvaluationRequest& request, const Player& critical, StepCost& cost) {
    // The bubble is other stages' computation: it is as wrong as this stage's.
    const double computed = std::max(critical.compute_busy(), 1e-30);
    cost.total.add(critical.computed(), (computed + cost.breakdown.bubble.value()) / computed);
    cost.total.add({cost.breakdown.exposed_communication, costmodel::Mechanism::LinkBandwidth, request.model.link_log_error(), request.model.link_evidence()});
    cost.total.scale(request.model.composition_factor(), costmodel::Mechanism::Composition, request.model.composition_log_error());
    cost.step = cost.total.seconds();
  }

  static Joules device_energy(const EvaluationRequest& request, const Play& play, const StepCost& cost) {
    Joules total;
    const auto& program = request.program;
    for (int rank = 0; rank < program.ranks; ++rank) {
      const auto& device = platforms::device_of(request.platform, rank);
      const auto stage = std::find_if(play.rank_of_stage.begin(), play.rank_of_stage.end(), [&](int r) { return program.role(r).stage == program.role(rank).stage; });
      const Seconds busy(cost.busy_seconds[static_cast<std::size_t>(stage - play.rank_of_stage.begin())]);
      total += device.idle_power.value * cost.step + (device.busy_power.value - device.idle_power.value) * busy;
    }
    return total;
  }
};

}  // namespace

std::unique_ptr<StepEvaluator> closed_form_evaluator() { return std::make_unique<ClosedForm>(); }

}  // namespace rehearsal::plan
