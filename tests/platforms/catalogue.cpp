// The machines that travel with the program: complete, sourced, plausible, and in line with the published schema.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "platforms/catalog.hpp"
#include "platforms/embedded.hpp"
#include "platforms/json.hpp"
#include "platforms/schema_check.hpp"
#include "platforms/topology.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::platforms;
using nlohmann::json;

namespace {

bool is_quantity(const json& value) {
  return value.is_string() && std::isdigit(static_cast<unsigned char>(value.get<std::string>()[0])) != 0;
}

/// Paths of quantities that no "sources" beside them explains.
void collect_unsourced(const json& value, const std::string& path, std::vector<std::string>& out) {
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) collect_unsourced(value[i], path + "[" + std::to_string(i) + "]", out);
  if (!value.is_object()) return;
  for (const auto& [key, child] : value.items()) {
    if (key == "sources" || key == "name") continue;
    if (is_quantity(child) && value.value("sources", json::object()).value(key, "").size() < 8) out.push_back(path + "." + key);
    collect_unsourced(child, path + "." + key, out);
  }
}

std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the library holds the files of the catalogue as they are") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("platforms/catalog")) {
    ++files;
    const auto name = entry.path().stem().string();
    INFO(name);
    const auto& embedded = embedded_catalog();
    const auto found = std::find_if(embedded.begin(), embedded.end(), [&](const EmbeddedFile& file) { return file.name == name; });
    REQUIRE(found != embedded.end());
    CHECK(found->text == file_text(entry.path()));
    CHECK(load(name, {}).name == name);
    CHECK(load(entry.path().string(), {}) == load(name, {}));
  }
  CHECK(files == embedded_catalog().size());
}

TEST_CASE("every figure of the catalogue has a source") {
  for (const auto& file : embedded_catalog()) {
    std::vector<std::string> unsourced;
    collect_unsourced(json::parse(file.text), std::string(file.name), unsourced);
    CHECK(unsourced == std::vector<std::string>{});
  }
}

TEST_CASE("machines of the catalogue are plausible") {
  for (const auto& file : embedded_catalog()) {
    INFO(file.name);
    const auto platform = load(std::string(file.name), {});
    const auto& group = platform.nodes.front();
    const auto& device = group.device;
    // Balance of FLOP and bytes of real processors: from 1 (HBM with f64) to some 600 (16-bit matrix units).
    const double balance = device.peak("f32")->value() / (*device.memory_bandwidth).value();
    CHECK(balance > 5);
    CHECK(balance < 50);
    // 16-bit peaks are never below f32, and memory is read once in 5 ms to 2 s.
    if (device.peak("f16")) CHECK(*device.peak("f16") >= *device.peak("f32"));
    const auto sweep = *device.memory / *device.memory_bandwidth;
    CHECK(sweep > Seconds(5e-3));
    CHECK(sweep < Seconds(2));
    // FLOP per joule at full load: 10 GFLOP to 200 GFLOP in f32.
    const double efficiency = device.peak("f32")->value() / (*device.busy_power).value();
    CHECK(efficiency > 1e10);
    CHECK(efficiency < 2e11);
    CHECK(*group.price > DollarsPerHour(1));
    // One core copying to another process may be slower than a card that copies by itself.
    if (device.kind == DeviceKind::Gpu) CHECK(*group.nic.bandwidth < *group.intra.bandwidth);
  }
}

TEST_CASE("the schema and the reader agree on what is wrong") {
  const auto good = json::parse(embedded_catalog().front().text);
  CHECK_NOTHROW(check_against_schema(good, "good.json"));
  const std::vector<std::pair<std::string, json>> changes{{"/nodes/0/device/memory", "80 bananas"},
                                                          {"/nodes/0/device/memory_bandwidth", 5},
                                                          {"/nodes/0/count", 0},
                                                          {"/nodes/0/count", "8"},
                                                          {"/nodes/0/device/kind", "npu"},
                                                          {"/topology/kind", "star"},
                                                          {"/pue", 0.9},
                                                          {"/schema", 2},
                                                          {"/nodes", json::array()},
                                                          {"/nodes/0/intra/latency", "-1 us"},
                                                          {"/nodes/0/sources", 3},
                                                          {"/nodes/0/device/peaks", {{"f16", "1 TFLOP/s"}}},
                                                          {"/nodes/0/price", "5 $"},
                                                          {"/carbon_intensity", "0.4 kg"},
                                                          {"/nodes/0/nic/count", 0},
                                                          {"/nodes/0/unknown", 1}};
  for (const auto& [path, value] : changes) {
    auto wrong = good;
    wrong[json::json_pointer(path)] = value;
    INFO(path << " = " << value);
    CHECK_THROWS_AS(check_against_schema(wrong, "wrong.json"), BadInput);
    CHECK_THROWS_AS(read_platform(wrong, "wrong.json"), BadInput);
  }
}

TEST_CASE("the schema lists every kind of topology with its parameters") {
  const auto schema = json::parse(platform_schema());
  const auto& topology = schema.at("definitions").at("topology").at("properties");
  std::vector<std::string> kinds;
  for (const auto* row : topology_rows()) {
    kinds.emplace_back(row->kind);
    for (const auto& parameter : row->parameters) {
      INFO(parameter.key);
      REQUIRE(topology.contains(std::string(parameter.key)));
    }
  }
  CHECK(topology.at("kind").at("enum") == json(kinds));
}
