#pragma once
#include <string_view>

namespace rehearsal::costmodel {

/// Bytes that an optimizer's update reads and writes for every parameter.
struct UpdateTraffic {
  int slots = 0;      ///< values of state that it keeps
  double single = 0;  ///< everything in fp32
  double mixed = 0;   ///< fp32 weights and state beside 16-bit weights and gradients
};

/// By a row of graph::optimizer_table(), in the form that recipes use: SGD, LARS and RMSprop with momentum. Throws BadInput when there is
/// none of that name.
[[nodiscard]] UpdateTraffic update_traffic(std::string_view optimizer);

}  // namespace rehearsal::costmodel
