// Names in files can hold anything; what reaches the terminal cannot steer it.
#include "cli/text/printable.hpp"

#include "tests/catch.hpp"
#include "tests/cli/rehearse.hpp"

namespace rehearsal::cli {

TEST_CASE("text stays, controls and broken sequences are written out") {
  CHECK(printable("conv1/weight \xC3\xA9 \xE2\x82\xAC", false) == "conv1/weight \xC3\xA9 \xE2\x82\xAC");  // e acute, euro
  CHECK(printable("\x1b[2J\x07", false) == "\\x1b[2J\\x07");
  CHECK(printable("a\nb", true) == "a\nb");
  CHECK(printable("a\nb", false) == "a\\x0ab");
  CHECK(printable("\xC2\x9B", false) == "\\xc2\\x9b");           // another way to start a control sequence
  CHECK(printable("\xC0\xAF\xFF", false) == "\\xc0\\xaf\\xff");  // too long a form, and no lead byte
  CHECK(printable("\xE2\x82", false) == "\\xe2\\x82");           // cut off
}

TEST_CASE("a model's names reach the terminal without their controls") {
  for (const char* options : {"", " --tensors", " --format json"}) {
    const Ended ended = rehearse(std::string("inspect ") + REHEARSAL_CORPUS "/onnx/control_bytes --batch 2" + options);
    for (const std::string& text : {ended.out, ended.err}) {
      CHECK(text.find('\x1b') == std::string::npos);
      CHECK(text.find('\a') == std::string::npos);
    }
    CHECK(ended.out.size() + ended.err.size() > 0);
  }
}

}  // namespace rehearsal::cli
