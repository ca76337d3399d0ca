#include "costmodel/update_traffic.hpp"

#include "graph/training.hpp"

namespace rehearsal::costmodel {

UpdateTraffic update_traffic(std::string_view optimizer) {
  constexpr double kBytes = 4;
  const auto& row = graph::optimizer_row(optimizer);
  UpdateTraffic traffic;
  traffic.slots = static_cast<int>(row.slots.size());
  // Reads parameter, gradient and slots; writes parameter and slots.
  traffic.single = kBytes * (3 + 2 * traffic.slots + row.extra_passes);
  // Beside it the 16-bit copy is written, and the norm of all gradients is taken before they are clipped, which recipes do with moments.
  traffic.mixed = traffic.single + (row.counts_steps ? kBytes : 0);
  return traffic;
}

}  // namespace rehearsal::costmodel
