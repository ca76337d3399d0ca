#include "costmodel/kernel_choices.hpp"

#include <algorithm>

namespace rehearsal::costmodel {

std::string KernelHome::text() const { return cpu + " with " + instructions + " and " + libraries; }

void KernelChoices::take(const KernelChoices& newer) {
  if (newer.empty()) return;
  if (home != newer.home) nodes.clear();
  home = newer.home;
  for (const auto& choice : newer.nodes) {
    const auto known = std::ranges::find(nodes, choice.node, &KernelChoice::node);
    if (known == nodes.end())
      nodes.push_back(choice);
    else
      *known = choice;
  }
}

KernelChoice choice_by_time(std::string node, std::vector<TimedKernel> timed) {
  constexpr double kWorthIt = 0.97;
  const auto quickest = std::ranges::min_element(timed, {}, [](const TimedKernel& k) { return k.seconds.value(); });
  const bool worth_it = quickest->seconds.value() < kWorthIt * timed.front().seconds.value();
  auto chosen = (worth_it ? *quickest : timed.front()).implementation;
  return {std::move(node), std::move(chosen), std::move(timed)};
}

}  // namespace rehearsal::costmodel
