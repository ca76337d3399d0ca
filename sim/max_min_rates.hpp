#pragma once
// Max-min fair rates of flows over links by progressive filling (Bertsekas, Gallager: Data Networks, section 6.5.2): the rates of all
// flows grow together until a link is full, which fixes those that cross it. Only flows that are joined to a change through shared
// links are looked at again.

#include <cstdint>
#include <queue>
#include <vector>

#include "sim/network.hpp"

namespace rehearsal::sim {

class FairShare {
 public:
  explicit FairShare(const Routes& routes) : routes_(routes) {}

  /// The flow's route has links, its bytes are positive.
  void start(const MessageFlow&, double now, Token);
  /// Gives every flow its rate at `now` and tells when the first one ends; negative where there is none.
  [[nodiscard]] double next_end(double now);
  /// True, with its token, when a flow ends at or before `now` with the rates that are known.
  [[nodiscard]] bool pop_end(double now, Token& token);

 private:
  struct Moving {
    const KnownRoute* route = nullptr;
    const std::vector<double>* loads = nullptr;
    double left = 0, rate = 0, since = 0, next_rate = 0;
    Token token = 0;
    std::uint32_t version = 0;  ///< of its end in `ends_`: older ones are void
    std::uint64_t seen = 0;
    std::vector<std::uint32_t> positions;  ///< in the lists of its links
    [[nodiscard]] double load(std::uint32_t hop) const { return loads == nullptr ? 1 : (*loads)[hop]; }
  };
  struct Crossing {
    std::uint32_t flow, hop;
  };
  struct LinkState {
    std::vector<Crossing> flows;
    double left = 0;       ///< bandwidth not given yet
    std::size_t open = 0;  ///< flows without a rate yet
    double load = 0;       ///< that these put on it at rate 1
    std::uint64_t seen = 0;
    bool changed = false;
  };
  struct End {
    double time;
    std::uint64_t order;
    std::uint32_t flow, version;
    friend bool operator<(const End& a, const End& b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }
  };

  void remove(std::uint32_t id);
  void mark(std::uint32_t link);
  void share(double now);
  void collect(std::uint32_t first);
  void fill();
  void fix_flows_of(std::uint32_t full, double rate);
  void fix(Moving&, double rate);
  [[nodiscard]] bool fix_at_full_speed(double rate);
  void reschedule(double now);
  void drop_void_ends();

  const Routes& routes_;
  std::vector<Moving> flows_;
  std::vector<std::uint32_t> unused_;
  std::vector<LinkState> links_;
  std::vector<std::uint32_t> changed_;
  std::vector<std::uint32_t> joined_flows_, joined_links_;  ///< of the change that is looked at
  std::priority_queue<End> ends_;
  std::uint64_t stamp_ = 0, order_ = 0;
};

}  // namespace rehearsal::sim
