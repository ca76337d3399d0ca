#pragma once
// Messages between ranks: first the latency of the route, then the bytes.

#include <deque>
#include <vector>

#include "sim/network.hpp"

namespace rehearsal::sim {

/// What a token names.
enum class Occasion : std::uint8_t { RunEnded, LatencyPassed, Arrived, Reduced, PricedEnded };
[[nodiscard]] constexpr Token token_of(Occasion occasion, std::uint64_t number) { return static_cast<Token>(occasion) << 60 | number; }
[[nodiscard]] constexpr Occasion occasion_of(Token token) { return static_cast<Occasion>(token >> 60); }
[[nodiscard]] constexpr std::uint64_t number_of(Token token) { return token & ((Token{1} << 60) - 1); }

/// What is to be done when a message has arrived: three numbers that its sender knows how to read.
struct MessagePurpose {
  bool of_collective = false;
  std::uint32_t which = 0, sender = 0, step = 0;
};

class SimulatedMessages {
 public:
  /// `factor`: on the time that communication takes.
  SimulatedMessages(Routes& routes, FairNetwork& network, double factor) : routes_(routes), network_(network), factor_(factor) {}

  struct Ends {
    int from = 0, to = 0;
  };
  void send(Ends, double bytes, const MessagePurpose&);
  /// Of many messages that are alike and sent together, the only one that is played: `crossing` of them cross each link of its route.
  void send_one_of(const std::vector<int>& crossing, Ends, double bytes, const MessagePurpose&);
  void latency_passed(std::uint64_t number);
  /// The message does not exist any more.
  [[nodiscard]] MessagePurpose arrived(std::uint64_t number);

  [[nodiscard]] double factor() const { return factor_; }
  [[nodiscard]] double joules() const { return joules_; }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  struct Message {
    MessageFlow flow;
    MessagePurpose purpose;
    std::vector<double> loads;  ///< of one of many
  };
  Message& begin(Ends, double bytes, const MessagePurpose&);

  Routes& routes_;
  FairNetwork& network_;
  double factor_;
  std::deque<Message> messages_;  ///< flows refer to their loads
  std::vector<std::uint64_t> unused_;
  double joules_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace rehearsal::sim
