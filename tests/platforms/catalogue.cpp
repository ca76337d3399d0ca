// The machines that travel with the program: complete, sourced, plausible, and in line with the published schema.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"
#include "platforms/embedded_catalog.hpp"
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
    if (key == "sources" || key == "name" || key == "price_basis") continue;
    if (is_quantity(child) && value.value("sources", json::object()).value(key, "").size() < 8) out.push_back(path + "." + key);
    collect_unsourced(child, path + "." + key, out);
  }
}

std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Every file of the folder is embedded as it is, and nothing else.
void check_embedded(const std::string& folder, std::span<const EmbeddedFile> embedded) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    ++files;
    const auto name = entry.path().stem().string();
    INFO(name);
    const auto found = std::find_if(embedded.begin(), embedded.end(), [&](const EmbeddedFile& file) { return file.name == name; });
    REQUIRE(found != embedded.end());
    CHECK(found->text == file_text(entry.path()));
  }
  CHECK(files == embedded.size());
}

}  // namespace

TEST_CASE("what has a slash or ends in .json is a file, and a machine of the library is not one of the working folder") {
  CHECK(file_of("dgx-h100", {}) == std::nullopt);
  CHECK(file_of("machine.json", {}) == std::filesystem::path("machine.json"));
  CHECK(file_of("./machine", {}) == std::filesystem::path("./machine"));
}

TEST_CASE("the library holds the files of the catalogue as they are") {
  check_embedded("platforms/catalog", embedded_catalog());
  check_embedded("platforms/catalog/devices", embedded_devices());
  check_embedded("platforms/catalog/sites", embedded_sites());
  for (const auto& file : embedded_catalog()) {
    const std::string name(file.name);
    CHECK(load(name, {}).name == name);
    CHECK(load("platforms/catalog/" + name + ".json", {}) == load(name, {}));
    CHECK(read_platform(to_json(load(name, {})), name) == load(name, {}));
  }
  for (const auto& name : device_names()) CHECK(load_device(name).name == name);
}

TEST_CASE("every figure of the catalogue has a source") {
  std::vector<std::string> unsourced;
  for (const auto files : {embedded_catalog(), embedded_devices(), embedded_sites()})
    for (const auto& file : files) collect_unsourced(json::parse(file.text), std::string(file.name), unsourced);
  INFO((unsourced.empty() ? "" : unsourced.front()));
  CHECK(unsourced.empty());
}

TEST_CASE("a figure without a source is noticed") {
  auto device = json::parse(embedded_devices().front().text);
  device["sources"].erase("memory");
  std::vector<std::string> unsourced;
  collect_unsourced(device, "device", unsourced);
  CHECK(unsourced == std::vector<std::string>{"device.memory"});
}

TEST_CASE("devices of the catalogue follow the schema") {
  auto platform = json::parse(embedded_catalog().front().text);
  for (const auto& file : embedded_devices()) {
    INFO(file.name);
    platform["nodes"][0]["device"] = json::parse(file.text);
    CHECK_NOTHROW(check_against_schema(platform, std::string(file.name)));
  }
}

TEST_CASE("devices of the catalogue are physically consistent") {
  for (const auto& name : device_names()) {
    INFO(name);
    const auto device = load_device(name);
    const double f32 = device.peak("f32")->value();
    // Shorter numbers are never slower, and a matrix unit wins at most 128 times over f32 (Gaudi 3: 1835 / 14.3), in 4
    // bits 188 times (GB300: 15000 / 80).
    const std::vector<std::string_view> by_width{"f32", "tf32", "bf16", "f16", "fp8", "fp4"};
    double widest = f32;
    for (const auto arithmetic : by_width) {
      if (!device.peak(arithmetic)) continue;
      const double peak = device.peak(arithmetic)->value();
      // MI100 computes bf16 at half of f16 (both twice f32): the order of the list holds there, too.
      CHECK(peak >= 0.99 * widest);
      CHECK(peak <= (arithmetic == "fp4" ? 190 : 130) * f32);
      widest = std::max(widest, peak);
    }
    if (device.peak("f64")) CHECK(device.peak("f64")->value() <= 1.01 * f32);
    // Vector peak = units x lanes x 2 FLOP x clock: 128 lanes of Pascal to Blackwell x 2 = 256, 192 of Kepler x 2 = 384, 64 of P100 and
    // V100 x 2 = 128.
    if (device.kind == DeviceKind::Gpu && !device.on_matrix_units("f32")) {
      REQUIRE(device.clock.has_value());
      const double per_clock = f32 / (device.compute_units * device.clock->value.value());
      CHECK(per_clock > 100);
      CHECK(per_clock < 400);
    }
    // From a socket of 12 cores (0.9 TFLOP/s over 115 GB/s = 8) to GeForce of today (82.6 / 1.008 = 82) and L4 (30.3 / 0.3 = 101).
    const double balance = f32 / (*device.memory_bandwidth).value();
    CHECK(balance > 3);
    CHECK(balance < 110);
    // Memory is read once in 5 ms (HBM) to 3 s (DIMMs).
    const auto sweep = *device.memory / *device.memory_bandwidth;
    CHECK(sweep > Seconds(5e-3));
    CHECK(sweep < Seconds(3));
    CHECK(*device.busy_power > 1.5 * *device.idle_power);
    // FLOP per joule at full load: 8 GFLOP (Xeon 5118: 0.883 T / 105 W) to 510 GFLOP (TPU v6e: 153 T / 300 W) in f32.
    const double efficiency = f32 / (*device.busy_power).value();
    CHECK(efficiency > 8e9);
    CHECK(efficiency < 5.5e11);
    if (device.link_bandwidth) CHECK(device.link_bandwidth->value < *device.memory_bandwidth);
    REQUIRE(device.price.has_value());
    CHECK(device.price->value > DollarsPerHour(0.01));
    CHECK(device.price->value < DollarsPerHour(20));
    CHECK(!device.generation.empty());
    CHECK(!device.memory_type.empty());
  }
}

TEST_CASE("GPUs' memory moves as many bits a second through each pin as its kind does") {
  // Gbit/s a pin, slowest to fastest product: bandwidth over the bits of the bus.
  const std::map<std::string, std::pair<double, double>> rates{{"HBM2", {1.69, 2.5}}, {"HBM2e", {3.0, 3.3}},  {"HBM3", {5.1, 5.3}},
                                                               {"HBM3e", {6.2, 8.0}}, {"GDDR6", {10, 20}},    {"GDDR6X", {19, 22.5}},
                                                               {"GDDR7", {28, 30}},   {"LPDDR5X", {8.0, 9.6}}};
  int known = 0;
  for (const auto& name : device_names()) {
    const auto device = load_device(name);
    INFO(name);
    CHECK(device.memory_bus.has_value() == device.compute_capability.has_value());
    if (!device.memory_bus) continue;
    ++known;
    const auto [least, most] = rates.at(device.memory_type);
    const double rate = (*device.memory_bandwidth).value() * 8 / device.memory_bus->value / 1e9;
    CHECK(rate >= least);
    CHECK(rate <= most);
    CHECK(!device.memory_bus->source.empty());
    CHECK(!device.compute_capability->source.empty());
    const std::map<std::string, std::set<double>> generations{
        {"volta", {7.0}},  {"turing", {7.5}},     {"ampere", {8.0}},           {"ampere-ga10x", {8.6}},          {"ada", {8.9}},
        {"hopper", {9.0}}, {"blackwell", {10.0}}, {"blackwell-ultra", {10.3}}, {"blackwell-gb20x", {12.0, 12.1}}};
    CHECK(generations.at(device.generation).contains(device.compute_capability->value));
  }
  CHECK(known > 50);
}

TEST_CASE("every price of the catalogue says its term, and of which seller and year it is") {
  int on_demand = 0, dated = 0;
  const auto check = [&](const PriceBasis& basis, const std::string& source) {
    INFO(source << " is " << to_text(basis));
    CHECK(basis.term != PriceTerm::Yours);
    if (basis.term == PriceTerm::OnDemand || basis.term == PriceTerm::Reserved) CHECK(!basis.seller.empty());
    CHECK((source.find("launch price") != std::string::npos) == (basis.term == PriceTerm::Bought));
    if (source.find("estimate") == 0) CHECK((basis.term == PriceTerm::Estimate || basis.term == PriceTerm::Bought));
    // The basis has what the source says of the year.
    if (const auto year = source.find(", 202"); year != std::string::npos) CHECK(basis.date.find(source.substr(year + 2, 4)) == 0);
    on_demand += basis.term == PriceTerm::OnDemand;
    dated += !basis.date.empty();
  };
  for (const auto& name : device_names()) check(load_device(name).price_basis, load_device(name).price->source);
  for (const auto& name : catalog_names())
    for (const auto& group : load(name, {}).nodes) check(group.price_basis, group.price.source);
  // Cards that nobody lets by the hour are bought, machines in few hands estimated.
  CHECK(on_demand > 100);
  CHECK(dated > 55);
}

TEST_CASE("nodes of the catalogue are plausible") {
  for (const auto& file : embedded_catalog()) {
    INFO(file.name);
    const auto group = load(std::string(file.name), {}).nodes.front();
    CHECK(*group.price > DollarsPerHour(0.1));  // a computer on a desk, over three years
    // The node costs about what its devices cost: between a third and four times.
    const double devices = group.devices * group.device.price.value_or(DollarsPerHour(1)).value.value();
    CHECK(group.price.value.value() > devices / 3);
    CHECK(group.price.value.value() < devices * 4);
    // Ports of a switch are no faster than what the device has; one core copying to another may be slower than a card.
    if (group.intra.kind == IntraKind::Nvswitch) CHECK(*group.intra.bandwidth <= group.device.link_bandwidth->value);
    if (group.device.kind == DeviceKind::Gpu && group.nic.count > 0) CHECK(*group.nic.bandwidth <= *group.intra.bandwidth * 3);
  }
}

TEST_CASE("a device that people train on today is itself the name of a machine") {
  for (const char* name : {"h20", "h100", "h200", "h800", "gh200", "b200", "b300", "gb200", "gb300", "mi300x", "mi325x", "mi355x",
                           "rtx-pro-6000", "gaudi3", "tpu-v6e", "l40s"}) {
    INFO(name);
    const Platform machine = load(name, {});
    CHECK(machine.nodes.front().device.name == device_called(name).name);
  }
}

TEST_CASE("wires have a shape") {
  const auto shape = [](const char* name) {
    const auto group = load(name, {}).nodes.front();
    return intra_topology(group.intra, group.devices);
  };
  CHECK(shape("dgx1-v100") == "cube");
  CHECK(shape("jean-zay-v100") == "mesh");
  CHECK(shape("alps-gh200") == "mesh");
  CHECK(shape("dgx-a100") == "switch");
  CHECK(shape("rtx3090-4x") == "pcie");
  CHECK(shape("frontier") == "wires");
  CHECK(shape("tpu-v4-pod") == "single");
  CHECK(shape("epyc-7742-2s") == "memory");
}

TEST_CASE("what people call a device finds it") {
  const std::vector<std::pair<std::string, std::string>> called{
      {"A100-SXM4-80GB", "A100-SXM4-80GB"},
      {"NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"},
      {"NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"},
      {"V100-SXM3-32GB-450W", "V100-SXM3-32GB-H"},
      {"V100-SXM3-32GB", "V100-SXM3-32GB"},
      {"V100-PCIe/SXM2 32GB", "V100-PCIE-32GB"},
      {"V100 16GB (not stated in repo; assumed)", "V100-SXM2-16GB"},
      {"K80 (per GK210 die) 12GB", "K80-12GB"},
      {"P100 (PCIe, no NVLink)", "P100-PCIE-16GB"},
      {"P100 (Pascal)", "P100-SXM2-16GB"},
      {"GH200 (H100 96GB)", "GH200-96GB"},
      {"H100-SXM-96GB-HBM2e-500W", "H100-SXM5-96GB"},
      {"NVIDIA GeForce RTX 2080 Ti", "RTX-2080-Ti-11GB"},
      {"RTX 6000 Ada", "RTX-6000-Ada-48GB"},
      {"quadro rtx 6000", "Quadro-RTX-6000-24GB"},
      {"Titan X 12GB", "GTX-TITAN-X-12GB"},
      {"TPUv3 core 16GB", "TPUv3-core-16GB"},
      {"AMD Instinct MI250X", "MI250X-128GB"},
      {"V100 32 GB", "V100-SXM2-32GB"},
  };
  for (const auto& [text, name] : called) {
    INFO(text);
    const auto* device = find_device(text);
    REQUIRE(device != nullptr);
    CHECK(device->name == name);
  }
  for (const auto* text : {"TPU", "not stated", "", "RTX 9999", "Cerebras WSE-3"}) CHECK(find_device(text) == nullptr);
}

TEST_CASE("devices go by the names that their drivers tell") {
  const std::vector<std::pair<const char*, const char*>> names{{"Tesla V100-SXM2-16GB", "V100-SXM2-16GB"},
                                                               {"Tesla T4", "T4-16GB"},
                                                               {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
                                                               {"NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"},
                                                               {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"},
                                                               {"NVIDIA H100 PCIe", "H100-PCIE-80GB"},
                                                               {"NVIDIA H100 NVL", "H100-NVL-94GB"},
                                                               {"NVIDIA H200", "H200-SXM5-141GB"},
                                                               {"NVIDIA GH200 480GB", "GH200-96GB"},
                                                               {"NVIDIA B200", "B200-SXM-180GB"},
                                                               {"NVIDIA GeForce RTX 3080", "RTX-3080-10GB"},
                                                               {"NVIDIA GeForce RTX 4090", "RTX-4090-24GB"},
                                                               {"NVIDIA RTX A6000", "RTX-A6000-48GB"},
                                                               {"NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada-48GB"},
                                                               {"NVIDIA L40S", "L40S-48GB"},
                                                               {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-96GB"},
                                                               {"AMD Instinct MI300X", "MI300X-192GB"},
                                                               {"NVIDIA A10G", "A10G-24GB"}};
  for (const auto& [told, name] : names) {
    INFO(told);
    CHECK(device_called(told).name == name);
  }
}

TEST_CASE("a word beside a device's name is told, not passed over") {
  const auto beside = [](const std::string& text) { return words_beside(*find_device(text), text); };
  for (const auto* text : {"h100", "NVIDIA H100 80GB", "a100-40gb", "RTX3090", "AMD Instinct MI300X", "RTX 6000 Ada", "V100 32 GB"}) {
    INFO(text);
    CHECK(beside(text).empty());
  }
  for (const auto* count : {"3", "8", "16", "64", "512"}) CHECK(beside("h100:" + std::string(count)) == std::vector<std::string>{count});
  CHECK(beside("big h100 x8") == std::vector<std::string>{"big", "x8"});
  CHECK(load("h100", {}).name == "dgx-h100");
  CHECK_THROWS_WITH(load("h100:512", {}), contains("would be dgx-h100, but 512 stands beside it") && contains("--devices"));
  CHECK_THROWS_WITH(load("dgx-v100", {}), contains("did you mean \"dgx1-v100\"") && !contains("stands beside"));
  CHECK_THROWS_WITH(device_called("h100 foo"), contains("device \"h100 foo\""));
}

TEST_CASE("no two devices go by one name") {
  for (const auto& name : device_names()) {
    INFO(name);
    const auto device = load_device(name);
    REQUIRE(find_device(name) != nullptr);
    CHECK(find_device(name)->name == name);
    for (const auto& alias : device.aliases) {
      INFO(alias);
      REQUIRE(find_device(alias) != nullptr);
      CHECK(find_device(alias)->name == name);
    }
  }
}

TEST_CASE("every device of the published measurements is in the catalogue") {
  std::ifstream records("../shared/validation/measured.jsonl");
  if (!records) {
    WARN("skipped: ../shared/validation/measured.jsonl is not there");
    return;
  }
  std::set<std::string> missing;
  for (std::string line; std::getline(records, line);) {
    const auto hardware = json::parse(line).value("hardware", json::object());
    const auto gpu = hardware.value("gpu", "");
    if (find_device(gpu) == nullptr) missing.insert(gpu);
  }
  CHECK(missing == std::set<std::string>{"TPU", "not stated"});  // which say nothing
}

TEST_CASE("a device that the catalogue does not have is refused with the nearest name") {
  auto wrong = json::parse(embedded_catalog().front().text);
  wrong["nodes"][0]["device"] = "A100-SXM4-80";
  CHECK_THROWS_WITH(read_platform(wrong, "wrong.json"), contains("nodes[0].device") && contains("A100-SXM4-80GB"));
  wrong = json::parse(embedded_catalog().front().text);
  wrong["site"] = "moon";
  CHECK_THROWS_WITH(read_platform(wrong, "wrong.json"), contains("site") && contains("us-average"));
}

TEST_CASE("the schema and the reader agree on what is wrong") {
  const auto good = to_json(load("dgx-a100", {}));
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
                                                          {"/nodes/0/device/clock", "fast"},
                                                          {"/nodes/0/device/matrix_units", {"f4"}},
                                                          {"/nodes/0/device/aliases", {""}},
                                                          {"/nodes/0/device/time_between_failures", "never"},
                                                          {"/nodes/0/storage_bandwidth", "2 GB"},
                                                          {"/restart_time", 600},
                                                          {"/replacement_time", "4"},
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
