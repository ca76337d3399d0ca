#pragma once
// One figure of a platform by its name: "device.memory", "link.bandwidth", "nic.latency", "node.price", "topology.bandwidth", "pue".
// Names are the keys of the platform's file below the part that they belong to; "link" is the wiring inside a node. A figure of nodes is
// that of every group of nodes.

#include <string>
#include <string_view>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// The figures that this platform has.
[[nodiscard]] std::vector<std::string> setting_names(const Platform&);

/// What a figure is now, as its file says it; of the first group of nodes. `name` is one of setting_names().
[[nodiscard]] std::string setting(const Platform&, std::string_view name);

/// The platform with another value: a text as in its file ("400 GB/s", 4), or a factor to what is there ("x0.5").
/// Throws BadInput naming the nearest figure, or what is wrong with the value.
[[nodiscard]] Platform with_setting(const Platform&, const std::string& name, const std::string& value);

}  // namespace rehearsal::platforms
