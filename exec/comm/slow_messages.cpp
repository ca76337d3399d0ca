#include "exec/comm/slow_messages.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace rehearsal::exec {

std::uint64_t SlowMessages::hold(const Outgoing& message) {
  const auto number = count_++;
  auto& last = last_due_[{message.peer, message.channel, message.tag}];
  last = std::max(last, now_seconds() + longest_ * random_uniform(seed_, 0, number));
  held_[number] = {message, last, false, {}};
  return number;
}

Request* SlowMessages::posted(std::uint64_t number) {
  auto& held = held_.at(number);
  return held.posted ? &held.request : nullptr;
}

}  // namespace rehearsal::exec
