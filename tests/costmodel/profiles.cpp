#include "base/error.hpp"
#include "costmodel/constants.hpp"
#include "costmodel/framework.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

constexpr const char* kProfile = R"({"name": "x", "description": "d", "source": "s", "recognised_by": ["xyz"], "elementwise_fusion": 1,
  "normalization_fusion": 2, "launch": "static", "coordination": "none", "attention": "flash", "packing": "none", "allocator": "static")";

TEST_CASE("a profile is read, and a wrong key or value is refused by name") {
  const auto p = framework_from_json_text(std::string(kProfile) + R"(, "dropout": false})", "x.json");
  CHECK(p.launch == LaunchMode::Static);
  CHECK(p.attention == AttentionKernel::Flash);
  CHECK(!p.dropout);
  CHECK_THROWS_WITH(framework_from_json_text(std::string(kProfile) + R"(, "colour": 1})", "x.json"), contains("colour"));
  CHECK_THROWS_WITH(framework_from_json_text(R"({"name": "x"})", "x.json"), contains("x.json"));
}

TEST_CASE("every profile of the library is read, says where it comes from, and has its own name") {
  CHECK(framework_profiles().size() >= 20);
  for (const auto& p : framework_profiles()) {
    CHECK(!p.source.empty());
    CHECK(find_framework(p.name) == &p);
  }
  CHECK(find_framework("nothing like it") == nullptr);
}

TEST_CASE("the longest mark decides what a source means") {
  CHECK(recognise_framework("bigscience-workshop/megatron-deepspeed")->name == "megatron-deepspeed");
  CHECK(recognise_framework("nvidia/megatron-lm readme")->name == "megatron");
  CHECK(recognise_framework("a framework of next year") == nullptr);
}

TEST_CASE("constants read back as they were written and stay inside their bounds") {
  const auto& file = published_constants();
  const auto again = constants_from_json_text(to_json_text(file), "constants");
  for (std::size_t i = 0; i < kCoefficients; ++i) {
    const auto c = static_cast<Coefficient>(i);
    CHECK(again.values[c] == file.values[c]);
    CHECK(file.facts[i].low <= file.values[c]);
    CHECK(file.values[c] <= file.facts[i].high);
    CHECK(!file.facts[i].meaning.empty());
    CHECK(!file.facts[i].source.empty());
  }
  CHECK_THROWS_AS(constants_from_json_text("{}", "constants"), BadInput);
}

}  // namespace
}  // namespace rehearsal::costmodel
