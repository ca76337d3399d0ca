#pragma once
// What records of runs teach about the site that they come from.

#include <span>

#include "costmodel/constants.hpp"
#include "costmodel/site_corrections.hpp"
#include "validation/predict.hpp"

namespace rehearsal::validation {

[[nodiscard]] costmodel::SiteFeatures site_features(const Answer&);
/// `site` with the runs of more records. Records that are refused or have no measured value teach nothing.
[[nodiscard]] costmodel::Site learn_records(const costmodel::Site& site, std::span<const Record>, const costmodel::ConstantsFile&);

}  // namespace rehearsal::validation
