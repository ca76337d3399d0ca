#pragma once
// What pages are made of: their style and script (traces/page/, embedded by the build), and texts for HTML.

#include <string>
#include <string_view>

namespace rehearsal::traces {

[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view tokens_script();    ///< plays micro-batches as tokens below the timelines
[[nodiscard]] std::string_view timeline_script();  ///< draws what timeline_data() says into #timeline-0, #timeline-1, ...

inline constexpr double kPercent = 100;
[[nodiscard]] std::string seconds_text(double);  ///< "12.3 ms", escaped

}  // namespace rehearsal::traces
