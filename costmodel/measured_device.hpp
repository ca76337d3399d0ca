#pragma once
// Of which device measurements are, and whether they say anything of another. Calibrations, traces and platforms are asked alike.

#include <cstdint>
#include <optional>
#include <string>

#include "costmodel/calibration.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// A device as somebody calls it.
struct DeviceIdentity {
  std::optional<platforms::DeviceKind> kind;  ///< absent: nothing says what it is
  std::string name;                           ///< empty: of which make is not said
  /// The name, else "a processor" and the like.
  [[nodiscard]] std::string text() const;
};

/// What was measured: the GPU where the context names one, else the processor.
[[nodiscard]] DeviceIdentity identity_of(const MachineContext&);
/// A name that is not in the catalogue, as the "core" of `rehearse calibrate`, does not say of which make the device is.
[[nodiscard]] DeviceIdentity identity_of(const platforms::Device&);

/// What measurements of one device are for another.
enum class Likeness : std::uint8_t {
  NotSaid,  ///< of one of them too little is known to tell
  Same,     ///< the same one, or one of the catalogue whose kernels take as long (A800 and A100)
  Akin,     ///< both are processors, of different makes: the same kernels, other times
  Foreign,  ///< another kind of device, or another GPU: nothing follows from the measurements
};
[[nodiscard]] Likeness likeness(const DeviceIdentity&, const DeviceIdentity&);

}  // namespace rehearsal::costmodel
