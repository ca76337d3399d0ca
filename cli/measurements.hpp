#pragma once
// What a file of measurements (--machine) says of the devices of a platform. One that says nothing of them is refused.

#include <string>
#include <vector>

#include "costmodel/calibration.hpp"
#include "costmodel/framework.hpp"
#include "costmodel/site_corrections.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::cli {

/// By group of nodes, what was measured on devices such as its own; nothing where the file is "", or is of others. Says in `warnings` of
/// which of them it is not, and where they are another processor. Throws BadInput where it is of none.
[[nodiscard]] std::vector<costmodel::Calibration> measured_for(const std::string& machine, const platforms::Platform&,
                                                               std::vector<std::string>& warnings);

/// Whether runs of a site were on devices of the platform.
[[nodiscard]] bool knows_devices(const costmodel::Site&, const platforms::Platform&);
/// What runs of a site taught of a framework; nothing where the file is "". Throws BadInput where they were on none of these devices.
[[nodiscard]] costmodel::Site site_for(const std::string& machine, const platforms::Platform&, const costmodel::FrameworkProfile&);

}  // namespace rehearsal::cli
