#pragma once

#include "platforms/platform.hpp"
#include "validation/record.hpp"

namespace rehearsal::validation {

/// The machine of a record as a platform, and what had to be assumed.
struct RecordMachine {
  platforms::Platform platform;
  int devices = 1;            ///< of the job
  double power_limit = 0;     ///< watts a device may draw; 0: none stated
  bool device_known = true;   ///< the catalogue has it
  bool network_known = true;  ///< the rate of the cards is stated, or nothing leaves the node
};

/// The platform that the record names, else the catalogue's device with the record's own figures put over it, in nodes wired as the record
/// says. Throws Refusal naming the key.
[[nodiscard]] RecordMachine machine_of(const Record&);

}  // namespace rehearsal::validation
