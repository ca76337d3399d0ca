#include <cmath>
#include <fstream>
#include <tuple>

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

TEST_CASE("levels of fusion are read, and choices are named") {
  const auto with = [](const char* key, const std::string& value) {
    auto json = nlohmann::json::parse(std::string(kProfile) + "}");
    json[key] = nlohmann::json::parse(value);
    return framework_from_json_text(json.dump(), "x.json");
  };
  for (const int level : {0, 1, 2}) {
    CHECK(with("elementwise_fusion", std::to_string(level)).elementwise_fusion == level);
    CHECK(with("normalization_fusion", std::to_string(level)).normalization_fusion == level);
  }
  CHECK(with("launch", "\"eager\"").launch == LaunchMode::Eager);
  CHECK(with("launch", "\"captured\"").launch == LaunchMode::Captured);
  CHECK(with("coordination", "\"ddp\"").coordination == Coordination::Ddp);
  CHECK(with("coordination", "\"horovod\"").coordination == Coordination::Horovod);
  CHECK(with("attention", "\"plain\"").attention == AttentionKernel::Plain);
  CHECK(with("attention", "\"flash-tuned\"").attention == AttentionKernel::FlashTuned);
  CHECK(with("packing", "\"unpadded\"").packing == SequencePacking::Unpadded);
  CHECK(with("packing", "\"length-bins\"").packing == SequencePacking::LengthBins);
  CHECK(with("allocator", "\"deepspeed\"").allocator == AllocatorKind::Deepspeed);
  CHECK(with("allocator", "\"pytorch\"").allocator == AllocatorKind::Pytorch);
  CHECK_THROWS_WITH(with("launch", "\"lazy\""), contains("launch: 'lazy' is unknown. Known: eager, static, captured"));
  const auto state = with("state_bytes", R"({"weights": 4, "gradients": 3, "optimizer": 8})").state;
  CHECK(std::tuple(state.weights, state.gradients, state.optimizer) == std::tuple(4.0, 3.0, 8.0));
}

TEST_CASE("the usual framework of a device is the one whose beginning of a name says most") {
  platforms::Device device;
  device.name = "A100-SXM4-80GB";
  device.generation = "ampere";
  CHECK_FALSE(named_by({"hopper", "H100"}, device).has_value());
  CHECK(named_by({""}, device) == NameMatch{false, 0});
  CHECK(named_by({"", "ampere"}, device) == NameMatch{false, 6});
  CHECK(named_by({"ampere", "A1"}, device) == NameMatch{true, 2});  // a product's, however short, before a generation's
  CHECK(named_by({"A1", "A100-PCIE", "A100"}, device) == NameMatch{true, 4});
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
      if (!value.is_number()) continue;
      CHECK(value.get<double>() >= property.value("minimum", 0.0));
      CHECK(value.get<double>() <= property.value("maximum", 1e9));
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
    const auto &was = file.facts[i], &is = again.facts[i];
    CHECK(std::tie(is.fitted, is.low, is.high, is.spread, is.prior, is.meaning, is.source) ==
          std::tie(was.fitted, was.low, was.high, was.spread, was.prior, was.meaning, was.source));
    CHECK(file.facts[i].low <= file.values[c]);
    CHECK(file.values[c] <= file.facts[i].high);
    CHECK(!file.facts[i].meaning.empty());
    CHECK(!file.facts[i].source.empty());
  }
  CHECK_THROWS_AS(constants_from_json_text("{}", "constants"), BadInput);
  CHECK(again.evidence.log_factor == file.evidence.log_factor);
  CHECK(again.evidence.devices == file.evidence.devices);
  CHECK(again.evidence.frameworks == file.evidence.frameworks);
  REQUIRE(again.evidence.runs.size() == file.evidence.runs.size());
  for (std::size_t n = 0; n < file.evidence.runs.size(); ++n) {
    const auto &was = file.evidence.runs[n], &is = again.evidence.runs[n];
    CHECK(std::tie(is.framework, is.device, is.times, is.median_error) == std::tie(was.framework, was.device, was.times, was.median_error));
  }
  REQUIRE(again.evidence.kinds.size() == file.evidence.kinds.size());
  for (std::size_t n = 0; n < file.evidence.kinds.size(); ++n) {
    const auto &was = file.evidence.kinds[n], &is = again.evidence.kinds[n];
    CHECK(std::tie(is.traits.names, is.traits.devices, is.traits.parameters, is.times, is.error) ==
          std::tie(was.traits.names, was.traits.devices, was.traits.parameters, was.times, was.error));
  }
  CHECK(again.evidence.level == file.evidence.level);
  CHECK(again.evidence.widening == file.evidence.widening);
  CHECK(again.frozen_date == file.frozen_date);
  CHECK(again.frozen_commit == file.frozen_commit);
}

TEST_CASE("constants are fitted or fixed, and may be their bounds") {
  auto json = nlohmann::json::parse(to_json_text(published_constants()));
  auto& row = json["constants"][0];
  const auto read = [&] { return constants_from_json_text(json.dump(), "constants"); };
  const auto first = static_cast<Coefficient>(0);
  for (const bool fitted : {true, false}) {
    row["status"] = fitted ? "fitted" : "fixed";
    CHECK(read().facts[0].fitted == fitted);
    CHECK(nlohmann::json::parse(to_json_text(read()))["constants"][0]["status"] == row["status"]);
  }
  row["low"] = 0.25, row["high"] = 0.75;
  for (const double value : {0.25, 0.5, 0.75}) {
    row["value"] = value;
    CHECK(read().values[first] == value);
  }
  for (const double value : {0.2499, 0.7501}) {
    row["value"] = value;
    CHECK_THROWS_WITH(read(), contains("constants: " + std::string(name(first)) + " = ") && contains("is outside its bounds 0.25"));
  }
  row["value"] = 0.5;
  row.erase("prior");
  CHECK(read().facts[0].prior == 0.5);
  row["name"] = "colour";
  CHECK_THROWS_WITH(read(), contains("constants: 'colour' is unknown"));
  json["constants"].erase(0);
  CHECK_THROWS_WITH(read(), contains("constants: '" + std::string(name(first)) + "' is missing"));
  json = nlohmann::json::parse(to_json_text(published_constants()));
  json["intervals"].erase("default");
  CHECK_THROWS_WITH(read(), contains("intervals: 'default' is missing"));
}

}  // namespace
}  // namespace rehearsal::costmodel
