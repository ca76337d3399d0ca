// The network that simulations use: alarms and max-min fair flows as one SimGrid model, so that SimGrid's loop keeps the clock while
// nothing is paid for what it does per communication (hosts, activities, one list of all that live).
#include <algorithm>
#include <queue>

#include <simgrid/kernel/resource/Model.hpp>

#include "sim/max_min_rates.hpp"
#include "sim/simgrid/world.hpp"

namespace rehearsal::sim {
namespace {

/// What happens next, on a clock that begins with the run and is not rounded to the engine's.
class Agenda {
 public:
  explicit Agenda(const Routes& routes) : flows_(routes) {}

  [[nodiscard]] double now() const { return now_; }
  void alarm(double time, Token token) { alarms_.push({std::max(time, now_), ++order_, token}); }

  void start(const MessageFlow& flow, Token token) {
    if (flow.bytes > 0 && !flow.route->links.empty())
      flows_.start(flow, now_, token);
    else
      alarm(now_, token);
  }

  /// Negative when nothing will happen any more.
  [[nodiscard]] double next() {
    const double end = flows_.next_end(now_);
    if (alarms_.empty()) return end;
    return end < 0 ? alarms_.top().time : std::min(end, alarms_.top().time);
  }

  /// Everything up to `until`, what follows from it included.
  void play(double until, Listener& listener) {
    for (double time = next(); time >= 0 && time <= until; time = next()) {
      now_ = std::max(now_, time);
      for (Token token = 0; pop(token);) listener.happened(token);
    }
  }

 private:
  struct Alarm {
    double time;
    std::uint64_t order;
    Token token;
    friend bool operator<(const Alarm& a, const Alarm& b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }
  };

  bool pop(Token& token) {
    if (flows_.pop_end(now_, token)) return true;
    if (alarms_.empty() || alarms_.top().time > now_) return false;
    token = alarms_.top().token;
    alarms_.pop();
    return true;
  }

  FairShare flows_;
  std::priority_queue<Alarm> alarms_;
  double now_ = 0;
  std::uint64_t order_ = 0;
};

/// Stays registered with the engine for good; idle while it has no agenda.
class AgendaModel final : public simgrid::kernel::resource::Model {
 public:
  AgendaModel() : Model("rehearsal") {}

  void begin(Agenda& agenda, Listener& listener, double clock) {
    agenda_ = &agenda;
    listener_ = &listener;
    base_ = clock;
  }
  void end() { agenda_ = nullptr; }

  double next_occurring_event(double clock) override {
    promised_ = -1;
    if (agenda_ == nullptr) return -1;
    due_ = agenda_->next();
    if (due_ >= 0) promised_ = std::max(0.0, base_ + due_ - clock);
    return promised_;
  }

  void update_actions_state(double, double passed) override {
    if (agenda_ != nullptr && promised_ >= 0 && passed >= promised_) agenda_->play(due_, *listener_);
  }

 private:
  Agenda* agenda_ = nullptr;
  Listener* listener_ = nullptr;
  double base_ = 0, due_ = -1, promised_ = -1;
};

AgendaModel& model_of(World& world) {
  static const auto model = [&] {
    auto made = std::make_shared<AgendaModel>();
    world.engine().add_model(made);
    return made;
  }();
  return *model;
}

class FluidNetwork final : public FairNetwork {
 public:
  explicit FluidNetwork(const Routes& routes) : agenda_(routes) {}
  [[nodiscard]] double now() const override { return agenda_.now(); }
  void alarm(double time, Token token) override { agenda_.alarm(time, token); }
  void start(const MessageFlow& flow, Token token) override { agenda_.start(flow, token); }

  void run(Listener& listener) override {
    auto& world = World::of_process(1, 0);
    auto& model = model_of(world);
    model.begin(agenda_, listener, simgrid::s4u::Engine::get_clock());
    try {
      world.engine().run();
    } catch (...) {
      model.end();
      throw;
    }
    model.end();
  }

 private:
  Agenda agenda_;
};

}  // namespace

std::unique_ptr<FairNetwork> fluid_network(const Routes& routes) { return std::make_unique<FluidNetwork>(routes); }

}  // namespace rehearsal::sim
