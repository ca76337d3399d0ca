#pragma once
// Text in XML, SVG and HTML.

#include <string>
#include <string_view>

namespace rehearsal {

/// As character data or within an attribute's double quotes. Control characters, most of which XML does not have, are left out.
[[nodiscard]] std::string xml_escaped(std::string_view text);
/// A coordinate or a share, with two digits behind the point.
[[nodiscard]] std::string two_decimals(double value);

}  // namespace rehearsal
