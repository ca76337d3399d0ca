// inspect as a user asks it: what each pass of import did to a file.
#include "tests/cli/rehearse.hpp"
#include "tests/process.hpp"

namespace {

std::string written(const TemporaryFolder& folder, const std::string& model) {
  auto path = folder / "model.onnx";
  REQUIRE(rehearse("zoo " + model + " --batch 2 -o " + path).status == 0);
  return path;
}

}  // namespace

TEST_CASE("inspect says of every pass of import what it takes and leaves, each beginning where the one before ended") {
  const TemporaryFolder folder;
  const auto path = written(folder, kGpt);
  const auto answer = result_of(rehearse("inspect " + path + " --batch 2 --passes --format json"));
  const auto& passes = answer.at("passes");
  REQUIRE(passes.size() > 5);
  CHECK(passes.front().at("takes") == "a path");
  CHECK(passes.front().at("nodes_before") == 0);
  for (std::size_t n = 1; n < passes.size(); ++n) {
    INFO(passes[n].at("pass"));
    CHECK_FALSE(passes[n].at("leaves").get<std::string>().empty());
    CHECK(passes[n].at("nodes_before") == passes[n - 1].at("nodes"));
    CHECK(passes[n].at("tensors_before") == passes[n - 1].at("tensors"));
  }
  int nodes = 0;
  for (const auto& [op, count] : answer.at("operators").items()) nodes += count.get<int>();
  CHECK(passes.back().at("nodes") == nodes);
  // Without being asked nothing is said of passes.
  CHECK_FALSE(result_of(rehearse("inspect " + path + " --batch 2 --format json")).contains("passes"));
}

TEST_CASE("a pass that changes a file says what it changed") {
  const TemporaryFolder folder;
  const auto text =
      rehearse("inspect " + written(folder, "'zoo:vit?image=32&patch=16&hidden=16&layers=1&heads=2&classes=3'") + " --batch 2 --passes");
  INFO(text.err);
  REQUIRE(text.status == 0);
  CHECK_THAT(text.out, contains("recognize operators\n  recognized "));
  CHECK_THAT(text.out, contains("attention"));
}

TEST_CASE("passes of import are of files alone") {
  check_failure(rehearse(std::string("inspect ") + kGpt + " --passes"), 3, {"--passes", "built by Rehearsal itself"});
}

TEST_CASE("in text the tables of passes are an answer of their own, and JSON has both") {
  const TemporaryFolder folder;
  const auto asked = "inspect " + written(folder, kGpt) + " --batch 2 --passes ";
  for (const std::string option : {"--tensors", "--dims", "--kernels", "--loss mse", "--freeze '*'", "--lora 2"})
    check_failure(rehearse(asked + option), 2, {option.substr(0, option.find(' ')), "--passes", "--format json"});
  const auto both = result_of(rehearse(asked + "--tensors --format json"));
  CHECK(both.contains("passes"));
  CHECK(both.contains("tensors"));
}

TEST_CASE("inspect warns where other commands do, in JSON in its answer") {
  const std::string asked = std::string("inspect ") + kGpt + " --batch 4 --freeze 'nosuch*' --train 'none*'";
  const auto text = rehearse(asked);
  CHECK(text.status == 0);
  for (const auto* glob : {"--freeze 'nosuch*'", "--train 'none*'"})
    CHECK_THAT(text.err, contains(std::string("warning: ") + glob + " matches no stored tensor"));
  CHECK_THAT(text.out, !contains("matches no stored tensor"));
  const auto json = rehearse(asked + " --format json");
  CHECK(result_of(json).at("warnings").size() == 2);
  CHECK(json.err.empty());
}

TEST_CASE("kernels are shown in types that they compute in") {
  const std::string asked = std::string("inspect ") + kGpt + " --batch 4 --kernels --format json --dtype ";
  for (const std::string type : {"fp8", "fp8-rowwise", "fp8-block", "mxfp8", "nvfp4"}) {
    check_failure(rehearse(asked + type), 3, {"--dtype " + type, "no kernel here computes in it", "bf16"});
    // Before anything is said of a GPU's kernels, which are no other.
    check_failure(rehearse(asked + type + " --device h100"), 3, {"--dtype " + type, "no kernel here computes in it"});
  }
  for (const std::string type : {"f32", "f64", "f16", "bf16"}) CHECK(result_of(rehearse(asked + type)).at("kernels").size() > 0);
}

TEST_CASE("inspect of kernels in 16 bits says what computes in f32, and what that is of the work") {
  const auto warnings = [](const std::string& batch) {
    std::string all;
    const auto result = result_of(rehearse("inspect 'zoo:resnet18?image=32' --dtype bf16 --kernels --format json --batch " + batch));
    for (const auto& warning : result.at("warnings")) all += warning.get<std::string>() + "\n";
    return all;
  };
  // The last blocks normalize one pixel a sample: over four values of a channel.
  CHECK_THAT(warnings("4"), contains("compute in f32") && contains("statistics of 4 values") && contains("bf16 needs 256"));
  CHECK_THAT(warnings("256"), !contains("compute in f32"));
}
