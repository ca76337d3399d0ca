#pragma once
// Tells data from other data of as many samples without a pass over it.

#include <string>
#include <vector>

#include "exec/data/dataset.hpp"

namespace rehearsal::exec {

/// A checksum of the first and the last sample of the files as a model gets them, of large ones the middle. Empty where one of them cannot
/// be read: training says so if it comes to it.
[[nodiscard]] std::string checksum_of_ends(const Dataset&, const std::vector<WantedTensor>&);

}  // namespace rehearsal::exec
