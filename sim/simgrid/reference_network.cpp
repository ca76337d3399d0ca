// SimGrid's own communications on links without latency, alarms as kernel timers. Flows of one instant that share links are right
// only because their links have no latency: with it, the lazy update of 3.32 and later gives 2.0 s where max-min fairness gives 4.0 s.
#include <cmath>
#include <unordered_map>

#include <simgrid/kernel/Timer.hpp>

#include "base/error.hpp"
#include "sim/simgrid/world.hpp"

namespace rehearsal::sim {
namespace {

/// Seconds. The clock of an engine never goes back; beyond this its rounding is no longer small against microseconds.
constexpr double kLatestClock = 1e4;

class ReferenceNetwork;

/// The network whose turn it is: SimGrid's signals cannot be disconnected.
ReferenceNetwork*& current() {
  static ReferenceNetwork* network = nullptr;
  return network;
}

class ReferenceNetwork final : public FairNetwork {
 public:
  explicit ReferenceNetwork(const Routes& routes)
      : routes_(routes), world_(World::of_process(kReferenceRanks, kReferenceLinks)), base_(simgrid::s4u::Engine::get_clock()) {
    ensure(current() == nullptr, "one reference network at a time");
    static const bool connected = [] {
      compat::on_communication_end([](const compat::Ended& ended) { current()->communication_ended(&ended); });
      return true;
    }();
    ensure(connected, "the signal is connected");
    ensure(base_ < kLatestClock, "a new process goes on before the engine's clock is too coarse");
    current() = this;
  }
  ReferenceNetwork(const ReferenceNetwork&) = delete;
  ReferenceNetwork& operator=(const ReferenceNetwork&) = delete;
  ~ReferenceNetwork() override { current() = nullptr; }

  [[nodiscard]] double now() const override { return simgrid::s4u::Engine::get_clock() - base_; }

  void alarm(double time, Token token) override {
    simgrid::kernel::timer::Timer::set(std::max(base_ + time, simgrid::s4u::Engine::get_clock()), [this, token] { happen(token); });
  }

  void start(const MessageFlow& flow, Token token) override {
    const auto bytes = std::llround(flow.bytes);
    if (bytes == 0 || flow.route->links.empty()) return alarm(now(), token);
    prepare_links();
    ensure(flow.from < kReferenceRanks && flow.to < kReferenceRanks, "the reference network is for few ranks");
    world_.set_route(flow.route);
    auto communication = simgrid::s4u::Comm::sendto_init(world_.host(flow.from), world_.host(flow.to));
    communication->set_payload_size(static_cast<std::uint64_t>(bytes));
    const auto* key = static_cast<const compat::Ended*>(communication.get());
    running_.emplace(key, Running{communication, token});
    compat::start(*communication);
  }

  void run(Listener& listener) override {
    listener_ = &listener;
    world_.engine().run();
    finished_.clear();
    listener_ = nullptr;
  }

 private:
  struct Running {
    simgrid::s4u::CommPtr communication;
    Token token;
  };

  void happen(Token token) {
    if (listener_ != nullptr) listener_->happened(token);
  }

  void communication_ended(const compat::Ended* ended) {
    const auto at = running_.find(ended);
    if (at == running_.end()) return;
    const auto token = at->second.token;
    finished_.push_back(std::move(at->second.communication));  // must outlive this call
    running_.erase(at);
    happen(token);
  }

  /// Links get their bandwidth when the first route that crosses them is known.
  void prepare_links() {
    ensure(routes_.links().size() <= kReferenceLinks, "the reference network is for few links");
    for (; prepared_ < routes_.links().size(); ++prepared_)
      world_.link(static_cast<std::uint32_t>(prepared_))->set_bandwidth(routes_.links()[prepared_].bandwidth.value());
  }

  const Routes& routes_;
  World& world_;
  double base_;
  Listener* listener_ = nullptr;
  std::unordered_map<const compat::Ended*, Running> running_;
  std::vector<simgrid::s4u::CommPtr> finished_;
  std::size_t prepared_ = 0;
};

}  // namespace

std::unique_ptr<FairNetwork> reference_network(const Routes& routes) { return std::make_unique<ReferenceNetwork>(routes); }

}  // namespace rehearsal::sim
