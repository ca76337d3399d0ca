#include "plan/program/strip.hpp"

#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

void strip(Program& program) {
  const Sharding& full = *program.sharding;
  const std::size_t axes = full.axes.size(), nodes = axes == 0 ? 0 : full.choices.size() / axes;
  std::vector<bool> windowed(nodes, false);  // their operands' halos follow from the way in which they are split
  auto stripped = std::make_shared<Sharding>();
  stripped->choices.assign(full.choices.size(), -1);
  for (std::size_t n = 0; n < nodes; ++n)
    for (std::size_t a = 0; a < axes; ++a) {
      const auto* way = full.choice(static_cast<graph::NodeId>(n), a);
      if (way == nullptr || way->kind != graph::LabelKind::Window) continue;
      windowed[n] = true;
      stripped->choices[n * axes + a] = full.choices[n * axes + a];
    }
  stripped->axes = full.axes;
  stripped->dims = std::make_shared<const graph::LogicalDims>(full.dims->of_tensors(windowed));
  stripped->rings = full.rings;
  stripped->ring_of_node = full.ring_of_node;
  program.sharding = std::move(stripped);
}

}  // namespace rehearsal::plan
