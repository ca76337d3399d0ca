// explain as a user asks it: one answer is printed, and files are written beside it or refused.
#include <filesystem>

#include "tests/cli/rehearse.hpp"

namespace {

const std::string kAsked = std::string("explain dp=2 --batch 4 --platform dgx-a100 --model ") + kGpt + " ";

}  // namespace

TEST_CASE("files of the Program are written beside the passes that made it, as beside its instructions") {
  const TemporaryFolder folder;
  const auto json = folder / "p.json", dot = folder / "p.dot", net = folder / "p.pnml";
  const auto ended = rehearse(kAsked + "--passes --json " + json + " --dot " + dot + " --pnml " + net);
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, contains("open bodies"));
  CHECK(nlohmann::json::parse(text_of(json)).contains("roles"));
  CHECK_THAT(text_of(dot), contains("digraph"));
  CHECK_THAT(text_of(net), contains("<pnml"));
}

TEST_CASE("what is behind a pass is not what the files hold") {
  const TemporaryFolder folder;
  for (const std::string option : {"--json", "--dot", "--pnml"}) {
    const auto file = folder / "p.out";
    check_failure(rehearse(kAsked + "--after forward " + option + " " + file), 2, {option, "--after", "leave one of them out"});
    CHECK_FALSE(std::filesystem::exists(file));
  }
}

TEST_CASE("two answers at a time are refused") {
  for (const auto& [both, first, second] : {std::tuple{"--layers --passes", "--layers", "--passes"},
                                            {"--program --layers", "--layers", "--program"},
                                            {"--after forward --layers", "--layers", "--after"},
                                            {"--program --passes", "--program", "--passes"},
                                            {"--passes --after forward", "--passes", "--after"},
                                            {"--layers --passes --format json", "--layers", "--passes"}}) {
    INFO(both);
    check_failure(rehearse(kAsked + both), 2, {first, second, "one at a time"});
  }
}
