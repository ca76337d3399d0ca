#include "plan/sharding/classes.hpp"

#include <algorithm>

namespace rehearsal::plan {

BlockClasses::BlockClasses(const Sharding& s) : s_(s) {
  for (const Layout& layout : s.layouts) add(layout);
  for (const auto& node : s.wanted) {
    for (const Layout& layout : node) add(layout);
  }
  for (const Conversion& conversion : s.conversions) {
    Layout on_the_way = conversion.from;
    for (const ConversionStep& step : conversion.steps) {
      on_the_way[step.axis] = step.to;
      add(on_the_way);
    }
  }
  // Ranks of a ring have the same blocks in other turns, and do not compute what is masked from them.
  for (const AttentionRing& ring : s.rings) by_coordinate_.push_back(ring.axis);
  std::sort(by_coordinate_.begin(), by_coordinate_.end());
  by_coordinate_.erase(std::unique(by_coordinate_.begin(), by_coordinate_.end()), by_coordinate_.end());
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
}

void BlockClasses::add(const Layout& layout) {
  for (std::size_t a = 0; a < layout.size(); ++a) {
    if (!layout[a].split() || s_.axes[a].in_time) continue;
    Cut cut{s_.dims->atoms().find(layout[a].atom), {}, layout[a].halo != 0};
    for (std::size_t b = 0; b < layout.size(); ++b) {
      const bool same = layout[b].split() && layout[b].dim == layout[a].dim && layout[b].factor == layout[a].factor;
      if (same && !s_.axes[b].in_time) cut.axes.push_back(b);
    }
    if (cut.axes.front() == a && (cuts_.empty() || cuts_.back() != cut)) cuts_.push_back(std::move(cut));
  }
}

std::vector<std::int64_t> BlockClasses::of(const Coordinates& at) const {
  std::vector<std::int64_t> sizes;
  for (const std::size_t a : by_coordinate_) sizes.push_back(at[a]);
  for (std::size_t a = 0; a < s_.axes.size(); ++a)  // whoever takes other samples may take them in other micro-batches
    if (!s_.axes[a].samples.empty()) sizes.push_back(s_.axes[a].samples[static_cast<std::size_t>(at[a])]);
  for (const Cut& cut : cuts_) {
    Range mine{0, s_.dims->atoms().size(cut.atom)};
    for (const std::size_t a : cut.axes) {
      mine = s_.part(a, cut.atom, mine, at);
      sizes.push_back(mine.count());  // inner axes let go before outer ones: equal parts of unequal blocks are gathered differently
    }
    if (cut.by_place) sizes.push_back(mine.begin);
  }
  return sizes;
}

}  // namespace rehearsal::plan
