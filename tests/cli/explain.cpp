// explain as a user asks it: one answer is printed, and files are written beside it or refused.
#include <algorithm>
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

TEST_CASE("layers that differ in their names alone are shown once, whichever framework runs them") {
  const auto layers_of = [](const std::string& framework, const std::string& plan) {
    const auto answer = result_of(rehearse("explain " + plan + " --batch 8 --platform dgx-a100 --dtype bf16 --format json --framework " +
                                           framework + " --model 'zoo:gpt?layers=12&hidden=256&heads=4&seq=64&vocab=1000'"));
    std::vector<std::pair<std::string, int>> layers;
    for (const auto& layer : answer.at("stages").front().at("layers"))
      layers.emplace_back(layer.at("name").get<std::string>() + " ... " + layer.at("last").get<std::string>(), layer.at("alike"));
    return layers;
  };
  using Layer = std::pair<std::string, int>;
  for (const auto* framework : {"megatron-core", "torchtitan", "pytorch", "rehearse"}) {
    INFO(framework);
    const auto layers = layers_of(framework, "tp=2");
    CHECK(std::ranges::count(layers, Layer{"h.0 ... h.11", 12}) == 1);
    CHECK(std::ranges::count(layers, Layer{"wte ... wte", 1}) == 1);  // what computes something else stays alone
  }
  // A bucket of gradients is full in the backward pass of h.4, which sends what the others do not.
  const auto layers = layers_of("megatron-core", "dp=2");
  for (const auto& layer : {Layer{"h.0 ... h.3", 4}, {"h.4 ... h.4", 1}, {"h.5 ... h.11", 7}})
    CHECK(std::ranges::count(layers, layer) == 1);
}

TEST_CASE("ep is of experts, or in our own execution of groups, and is called so") {
  const std::string asked = "explain dp=4,ep=2 --platform dgx-a100 --framework rehearse --batch 8 --format json --model ";
  const auto does = [&](const std::string& model) {
    const auto answer = result_of(rehearse(asked + "'zoo:" + model + "'"));
    const auto& axes = answer.at("axes");
    return std::ranges::find_if(axes, [](const auto& axis) { return axis.at("axis") == "ep"; })->at("does").template get<std::string>();
  };
  CHECK_THAT(does("moe?layers=1&hidden=64&heads=4&kv_heads=4&ffn=128&seq=32&vocab=100&experts=4"),
             contains("experts are spread over 2 ranks"));
  CHECK_THAT(does("resnext50_32x4d?image=32&classes=10"), contains("groups") && !contains("experts") && !contains("tokens"));
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

TEST_CASE("changes that the cuts of a plan do not suit are passed over") {
  const std::string asked =
      " 'zoo:gpt?layers=4&hidden=64&heads=4&seq=16&vocab=100' --platform xeon-2s-10gbe --batch 8 --framework rehearse";
  // Among the changes are schedules that cut the model of pp=2 into 4 parts.
  const auto ended = rehearse("explain dp=2,pp=2,micro_batch=1,cuts=h.2.ln_1 --model" + asked);
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, contains("stage 1"));
  // Of 1, 2 and 4 stages one number has one cut, and one needs none.
  const auto searched = result_of(rehearse("search" + asked + " --plan dp=auto,pp=auto,micro_batch=1,cuts=h.2.ln_1 --format json"));
  for (const auto& plan : searched.at("plans")) CHECK_THAT(plan.at("plan").get<std::string>(), !contains("pp=4"));
  check_failure(rehearse("explain pp=2,schedule=dualpipe-v,micro_batch=1,cuts=h.2.ln_1 --model" + asked), 3,
                {"1 cuts for pp=2 with schedule=dualpipe-v; there must be 3"});
}
