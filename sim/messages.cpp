#include "sim/messages.hpp"

namespace rehearsal::sim {

void SimulatedMessages::send(int from, int to, double bytes, const Purpose& purpose) {
  if (unused_.empty()) {
    unused_.push_back(messages_.size());
    messages_.emplace_back();
  }
  const auto number = unused_.back();
  unused_.pop_back();
  const auto& route = routes_.between(from, to);
  messages_[number] = {{from, to, &route, bytes * factor_}, purpose};
  joules_ += bytes * route.joules_per_byte;
  ++count_;
  network_.alarm(network_.now() + route.latency * factor_, token_of(Occasion::LatencyPassed, number));
}

void SimulatedMessages::latency_passed(std::uint64_t number) {
  network_.start(messages_[number].flow, token_of(Occasion::Arrived, number));
}

Purpose SimulatedMessages::arrived(std::uint64_t number) {
  unused_.push_back(number);
  return messages_[number].purpose;
}

}  // namespace rehearsal::sim
