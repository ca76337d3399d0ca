#include <fstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "costmodel/constants.hpp"
#include "costmodel/embedded_constants.hpp"
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
    INFO(p.name);
    CHECK(!p.source.empty());
    CHECK(find_framework(p.name) == &p);
  }
  CHECK(find_framework("nothing like it") == nullptr);
}

nlohmann::json published_schema() {
  std::ifstream in(PROFILE_SCHEMA);
  REQUIRE(in);
  return nlohmann::json::parse(in);
}

/// What a profile must say by itself, under the schema: less where it is a release of another.
std::vector<std::string> required_of(const nlohmann::json& schema, const nlohmann::json& profile) {
  auto required = schema.at("required").get<std::vector<std::string>>();
  if (profile.contains("release_of")) return required;
  for (const auto& key : schema.at("then").at("required")) required.push_back(key);
  return required;
}

/// A value that the schema's property allows.
nlohmann::json example_of(const nlohmann::json& property) {
  if (property.contains("enum")) return property.at("enum").front();
  const auto type = property.at("type").get<std::string>();
  if (type == "object") {
    auto object = nlohmann::json::object();
    if (!property.contains("properties")) return {{"x", example_of(property.at("additionalProperties"))}};
    for (const auto& [key, part] : property.at("properties").items()) object[key] = example_of(part);
    return object;
  }
  if (type == "array") return {"x"};
  if (type == "string") return "x";
  return type == "boolean" ? nlohmann::json(true) : nlohmann::json(1);
}

TEST_CASE("the published schema and the reader of profiles know the same keys") {
  const auto schema = published_schema();
  nlohmann::json all;
  for (const auto& [key, property] : schema.at("properties").items()) {
    INFO(key);
    CHECK(!property.value("description", "").empty());
    if (key == "release_of") continue;  // of a profile that there is
    all[key] = example_of(property);
    for (const auto& choice : property.value("enum", nlohmann::json::array())) {
      auto with = all;
      for (const auto& required : required_of(schema, with)) with[required] = example_of(schema.at("properties").at(required));
      with[key] = choice;
      CHECK_NOTHROW(framework_from_json_text(with.dump(), key));
    }
  }
  CHECK_NOTHROW(framework_from_json_text(all.dump(), "every key"));
  for (const auto& required : required_of(schema, all)) {
    auto without = all;
    without.erase(required);
    CHECK_THROWS_AS(framework_from_json_text(without.dump(), "without one"), BadInput);
  }
}

TEST_CASE("every profile of the library keeps to the published schema") {
  const auto schema = published_schema();
  for (const auto& file : embedded_profiles()) {
    INFO(file.name);
    const auto profile = nlohmann::json::parse(file.text);
    for (const auto& required : required_of(schema, profile)) CHECK(profile.contains(required));
    for (const auto& [key, value] : profile.items()) {
      INFO(key);
      REQUIRE(schema.at("properties").contains(key));
      const auto& property = schema.at("properties").at(key);
      if (property.contains("enum")) {
        const auto& choices = property.at("enum");
        CHECK(std::find(choices.begin(), choices.end(), value) != choices.end());
        continue;
      }
      const auto type = property.at("type").get<std::string>();
      CHECK((type == value.type_name() || (type == "integer" && value.is_number_integer())));
      if (value.is_number()) CHECK(value.get<double>() <= property.value("maximum", 1e9));
    }
  }
}

TEST_CASE("a release of a framework is what that one is but for what it says itself") {
  const std::string own = R"({"name": "y", "description": "d", "source": "s", "recognised_by": ["xyz"], "release_of": ")";
  const auto& base = *find_framework("nemo");
  const auto release = framework_from_json_text(own + R"(nemo", "dispatches_by_node": false, "state_bytes": {"gradients": 4}})", "y.json");
  CHECK(release.name == "y");
  CHECK(release.product() == "nemo");
  CHECK(base.product() == "nemo");
  CHECK(release.attention == base.attention);
  CHECK(release.values == base.values);
  CHECK(!release.dispatches_by_node);
  CHECK(release.state.gradients == 4);
  CHECK(release.state.optimizer == base.state.optimizer);
  for (const auto& devices : release.usual_on) CHECK(devices.empty());  // that is said of each by itself
  CHECK_THROWS_WITH(framework_from_json_text(own + R"(nemmo"})", "y.json"), contains("y.json") && contains("'nemmo'"));
  CHECK_THROWS_WITH(framework_from_json_text(own + R"(nemo-26.06"})", "y.json"), contains("no release of another"));
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
    INFO(file.facts[i].meaning);
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
