#pragma once
// In which order ranks fill the groups of nodes of a platform: nodes stay where they are, other ranks come to them.

#include <cstddef>
#include <string>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// Indices of Platform::nodes, in the order in which ranks fill them.
using NodeOrder = std::vector<std::size_t>;

/// What groups are called where they are put in order: by their device, where it is that of no other group; else by their own name; else
/// by their number, from 1 on.
[[nodiscard]] std::vector<std::string> group_names(const Platform&);
/// Those that are named, then the others as they are listed. A group is named as group_names() does, or by any other name of it or of its
/// device (or the first words of that: "V100") which no other group has. Throws Refusal naming those there are.
[[nodiscard]] NodeOrder order_of_groups(const Platform&, const std::vector<std::string>& named);
/// How many groups of this order so many ranks fill; all of them where there are not enough devices.
[[nodiscard]] std::size_t groups_in_use(const Platform&, const NodeOrder&, int ranks);
/// The same platform with these groups alone, in this order.
[[nodiscard]] Platform in_order(const Platform&, const NodeOrder&);
/// The order of the quickest devices first, the order of the platform, and of up to four groups all others; each as the names that
/// order_of_groups() needs for it, which are none of the platform's order. Of orders that put nodes alike behind each other there is one.
[[nodiscard]] std::vector<std::vector<std::string>> orders_worth_trying(const Platform&);

}  // namespace rehearsal::platforms
