#pragma once
// A Program on its way from lowering to a rank that plays it for hours.

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Drops what lowering and reports need and playing does not: layouts, conversions, and how else nodes could be split. Of a network of
/// 4,000 small nodes that is 4 MB of 5. Regions of buffers and redistributions stay; explain() and lowering are not for this program then.
void strip(Program& program);

}  // namespace rehearsal::plan
