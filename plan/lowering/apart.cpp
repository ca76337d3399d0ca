#include "plan/lowering/apart.hpp"

#include <algorithm>
#include <vector>

namespace rehearsal::plan {
namespace {

/// Instructions of one stream that those of another are to wait for: the last one that always runs, and those behind it.
class Latest {
 public:
  void add(std::uint32_t number, const Instruction& i) {
    if (i.when == When::Always) numbers_.clear();
    numbers_.push_back(number);
  }
  void awaited_by(Instruction& i, std::uint16_t body) {
    for (const auto number : numbers_)
      if (const Dependency d{body, number}; std::ranges::find(i.after, d) == i.after.end()) i.after.push_back(d);
    if (i.when == When::Always) numbers_.clear();  // all that follow on its stream wait for it
  }

 private:
  std::vector<std::uint32_t> numbers_;
};

}  // namespace

void keep_collectives_apart(Role& role) {
  for (std::size_t b = 0; b < role.bodies.size(); ++b) {
    const auto body = static_cast<std::uint16_t>(b);
    Latest computed, exchanged;
    std::uint32_t number = 0;
    for (auto& i : role.bodies[b].instructions) {
      if (i.stream == Stream::Collective) computed.awaited_by(i, body), exchanged.add(number, i);
      if (i.stream == Stream::Compute) exchanged.awaited_by(i, body), computed.add(number, i);
      ++number;
    }
  }
}

}  // namespace rehearsal::plan
