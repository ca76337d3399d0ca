#pragma once
// What records of runs teach about the site that they come from.

#include <span>
#include <string>
#include <vector>

#include "costmodel/constants.hpp"
#include "costmodel/site_corrections.hpp"
#include "validation/predict.hpp"

namespace rehearsal::validation {

[[nodiscard]] costmodel::SiteFeatures site_features(const Answer&);
/// A record that teaches nothing: it is refused, or measures nothing that is learned from.
struct TaughtNothing {
  std::string id, why;
};
/// `site` with the runs of more records; `nothing`, where it is wanted, gets those that teach nothing.
[[nodiscard]] costmodel::Site learn_records(const costmodel::Site& site, std::span<const Record>, const costmodel::ConstantsFile&,
                                            std::vector<TaughtNothing>* nothing = nullptr);

}  // namespace rehearsal::validation
