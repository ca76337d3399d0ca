#include "base/xml.hpp"

#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("what XML would read as its own is escaped, and what it cannot have is left out") {
  CHECK(xml_escaped("a < b & \"c\" > d") == "a &lt; b &amp; &quot;c&quot; &gt; d");
  CHECK(xml_escaped("gr\xC3\xB6\xC3\x9F\x65r\nline") == "gr\xC3\xB6\xC3\x9F\x65rline");
  CHECK(xml_escaped(std::string("bell\a and \x00 nothing", 19)) == "bell and  nothing");
  CHECK(xml_escaped("").empty());
}
