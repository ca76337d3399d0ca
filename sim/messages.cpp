#include "sim/messages.hpp"

#include <algorithm>

namespace rehearsal::sim {

void SimulatedMessages::send(Ends ends, double bytes, const MessagePurpose& purpose) { begin(ends, bytes, purpose); }

void SimulatedMessages::send_one_of(const std::vector<int>& crossing, Ends ends, double bytes, const MessagePurpose& purpose) {
  auto& message = begin(ends, bytes, purpose);
  const auto& links = message.flow.route->links;
  if (links.empty()) return;
  const auto bandwidth = [&](std::uint32_t link) { return routes_.links()[link].bandwidth.value(); };
  const double alone = bandwidth(*std::ranges::min_element(links, {}, bandwidth));
  for (const int count : crossing) message.loads.push_back(alone * count);
  message.flow.bytes /= alone;
  message.flow.loads = &message.loads;
}

SimulatedMessages::Message& SimulatedMessages::begin(Ends ends, double bytes, const MessagePurpose& purpose) {
  if (unused_.empty()) {
    unused_.push_back(messages_.size());
    messages_.emplace_back();
  }
  const auto number = unused_.back();
  unused_.pop_back();
  const auto& route = routes_.between(ends.from, ends.to);
  messages_[number] = {{ends.from, ends.to, &route, bytes * factor_}, purpose, {}};
  joules_ += bytes * route.joules_per_byte;
  ++count_;
  network_.alarm(network_.now() + route.latency * factor_, token_of(Occasion::LatencyPassed, number));
  return messages_[number];
}

void SimulatedMessages::latency_passed(std::uint64_t number) {
  network_.start(messages_[number].flow, token_of(Occasion::Arrived, number));
}

MessagePurpose SimulatedMessages::arrived(std::uint64_t number) {
  unused_.push_back(number);
  return messages_[number].purpose;
}

}  // namespace rehearsal::sim
