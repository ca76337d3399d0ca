// The ONNX project's test cases: none wrong, forward or backward, and no fewer pass than did.

#include "tests/cli/rehearse.hpp"

namespace {

constexpr std::int64_t kForward = 900, kBackward = 640;  ///< of 932 cases of ONNX 1.12, about 680 of which are differentiable

void check_counts(const std::string& options, std::int64_t least) {
  const auto ended = run_shell("REHEARSE=\"" REHEARSAL_COMMAND "\" scripts/conformance --format json" + options);
  if (ended.status == 4) {
    WARN("skipped: " << ended.err);
    return;
  }
  const auto result = result_of(ended);
  for (const auto& one : result.at("cases")) {
    INFO(one.at("case") << ": " << one.at("reason"));
    CHECK(one.at("result") != "fail");
    if (one.at("result") == "refused") CHECK_FALSE(one.at("reason").get<std::string>().empty());
  }
  CHECK(result.at("failed") == 0);
  if (result.at("cases").size() == 932) CHECK(result.at("passed").get<std::int64_t>() >= least);
}

}  // namespace

TEST_CASE("conformance forward") { check_counts("", kForward); }
TEST_CASE("conformance of gradients") { check_counts(" --gradients", kBackward); }

TEST_CASE("folders without cases are named") {
  check_failure(rehearse("conformance docs"), 1, {"docs", "no test case"});
  check_failure(rehearse("conformance nowhere"), 1, {"nowhere"});
}
