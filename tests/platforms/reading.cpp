// Every file that is wrong is refused in one sentence that names the file and the key.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "platforms/catalog.hpp"
#include "platforms/embedded_catalog.hpp"
#include "platforms/json.hpp"
#include "platforms/schema_check.hpp"
#include "platforms/strict_json.hpp"
#include "tests/catch.hpp"
#include "tests/platforms/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::platforms;
using namespace rehearsal::platforms::sample;
using nlohmann::json;

namespace {

/// Machines of every kind of node and network.
constexpr std::array kMachines{"dgx-a100", "dgx1-v100", "frontier", "tpu-v4-pod", "xeon-2s-10gbe", "rtx3090-4x"};

/// A machine of the catalogue with its device and its site written out.
json catalog_document(const std::string& name) { return to_json(load(name, {})); }

/// The sentence that refuses `document`, empty where it is accepted.
std::string refusal(const json& document) {
  try {
    (void)read_platform(document, "file.json");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

std::string refusal_of_text(const std::string& text) {
  try {
    (void)read_platform_text(text, "file.json");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

/// A document with the value at `pointer` replaced.
json with(const std::string& pointer, json value, const std::string& name = "dgx-a100") {
  auto document = catalog_document(name);
  document.at(json::json_pointer(pointer)) = std::move(value);
  return document;
}

/// Paths of every text that is a number and a unit.
void collect_quantities(const json& value, const std::string& path, std::vector<std::string>& out) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items())
      if (key != "sources" && key != "name" && key != "description" && key != "kind" && key != "generation" && key != "aliases" &&
          key != "matrix_units" && key != "memory_type" && key != "price_basis")
        collect_quantities(child, path + "/" + key, out);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect_quantities(value[i], path + "/" + std::to_string(i), out);
  } else if (value.is_string()) {
    out.push_back(path);
  }
}

}  // namespace

TEST_CASE("every quantity of every machine is refused when it is broken, by its key") {
  int tried = 0;
  for (const std::string name : kMachines) {
    const auto document = catalog_document(name);
    std::vector<std::string> quantities;
    collect_quantities(document, "", quantities);
    CHECK(quantities.size() > 12);
    for (const auto& path : quantities) {
      const auto text = document.at(json::json_pointer(path)).get<std::string>();
      const auto number = text.substr(0, text.find(' '));
      const auto unit = text.substr(text.find(' ') + 1);
      const std::vector<json> broken{"-" + number + " " + unit,
                                     number + " bananas",
                                     number,
                                     "",
                                     "nan " + unit,
                                     "inf " + unit,
                                     "1e999 " + unit,
                                     text + " " + text + " ",
                                     nullptr,
                                     json::array(),
                                     json::object(),
                                     5.0,
                                     true,
                                     std::string(100'000, '9')};
      for (const auto& value : broken) {
        auto wrong = document;
        wrong.at(json::json_pointer(path)) = value;
        const auto message = refusal(wrong);
        INFO(name << " " << path << " = " << value.dump().substr(0, 40) << " gave: " << message);
        CHECK(message.starts_with("file.json: "));
        CHECK(message.find(path.substr(path.rfind('/') + 1)) != std::string::npos);
        CHECK(message.size() < 500);
        ++tried;
      }
    }
  }
  CHECK(tried > 1000);
}

TEST_CASE("figures beyond any machine are refused") {
  CHECK_THAT(refusal(with("/nodes/0/device/memory_bandwidth", "2000 TB/s")), contains("must be from 1 kB/s to 1000 TB/s"));
  CHECK_THAT(refusal(with("/carbon_intensity", "400 kg/kWh")), contains("must be from 0 to 10 kg/kWh"));
  CHECK_THAT(refusal(with("/electricity_price", "-4 $/kWh")), contains("must be from 0 to 100 $/kWh"));
  CHECK_THAT(refusal(with("/nodes/0/device/memory", "80 B")), contains("device.memory"));
  CHECK_THAT(refusal(with("/nodes/0/intra/bandwidth", "0 GB/s")), contains("intra.bandwidth"));
  CHECK_THAT(refusal(with("/nodes/0/count", 100'000'000)), contains("nodes[0].count") && contains("10000000"));
  CHECK_THAT(refusal(with("/nodes/0/count", 0)), contains("nodes[0].count"));
  CHECK_THAT(refusal(with("/nodes/0/count", -3)), contains("nodes[0].count"));
  CHECK_THAT(refusal(with("/nodes/0/count", 2.5)), contains("nodes[0].count") && contains("whole number"));
  CHECK_THAT(refusal(with("/nodes/0/count", 18446744073709551615ULL)), contains("nodes[0].count"));
  CHECK_THAT(refusal(with("/nodes/0/devices", 9'000'000)), contains("devices"));
  CHECK_THAT(refusal(with("/pue", 0.5)), contains("pue") && contains("from 1 to 10"));
  CHECK_THAT(refusal(with("/pue", "1.5")), contains("pue"));
  CHECK_THAT(refusal(with("/nodes/0/device/idle_power", "500 W")), contains("idle_power") && contains("busy_power"));
}

TEST_CASE("what is known of failures, restarts and storage is read, written, and may be left out") {
  auto document = catalog_document("xeon-2s-10gbe");
  const auto without = read_platform(document, "file.json");
  CHECK_FALSE(without.nodes.front().device.time_between_failures);
  CHECK_FALSE(without.nodes.front().storage_bandwidth);
  CHECK_FALSE(without.restart_time);
  document["nodes"][0]["device"]["time_between_failures"] = "400 d";
  document["nodes"][0]["storage_bandwidth"] = "1 GB/s";
  document["storage_bandwidth"] = "3 GB/s";
  document["restart_time"] = "5 min";
  document["replacement_time"] = "4 h";
  document["sources"]["restart_time"] = "the log of last year";
  const auto platform = read_platform(document, "file.json");
  CHECK(platform.nodes.front().device.time_between_failures->value.value() == 400 * 86400);
  CHECK(platform.nodes.front().storage_bandwidth->value.value() == 1e9);
  CHECK(platform.storage_bandwidth->value.value() == 3e9);
  CHECK(platform.restart_time->value.value() == 300);
  CHECK(platform.restart_time->source == "the log of last year");
  CHECK(platform.replacement_time->value.value() == 14400);
  CHECK(read_platform(to_json(platform), "file.json") == platform);

  CHECK_THAT(refusal(with("/nodes/0/device/time_between_failures", "0 s")),
             contains("time_between_failures") && contains("from 60 s to 999999 d"));
  CHECK_THAT(refusal(with("/nodes/0/device/time_between_failures", 2112)), contains("time_between_failures") && contains("unit"));
  CHECK_THAT(refusal(with("/nodes/0/storage_bandwidth", "0 GB/s")), contains("storage_bandwidth"));
  document["restart_time"] = "-5 min";
  CHECK_THAT(refusal(document), contains("restart_time"));
}

TEST_CASE("what is known of where samples come from is read, written, and may be left out") {
  auto document = catalog_document("xeon-2s-10gbe");
  CHECK_FALSE(read_platform(document, "file.json").storage);
  CHECK_FALSE(read_platform(document, "file.json").nodes.front().storage);
  document["storage"] = {{"bandwidth", "40 GB/s"}, {"latency", "500 us"}, {"sources", {{"latency", "fio"}}}};
  document["nodes"][0]["storage"] = {{"bandwidth", "5 GB/s"},    {"bandwidth_while_all", "1 GB/s"}, {"disk_bandwidth", "3 GB/s"},
                                     {"disk_latency", "100 us"}, {"disk_capacity", "2 TB"},         {"cache", "64 GB"},
                                     {"decoding", "90 MB/s"}};
  const auto platform = read_platform(document, "file.json");
  CHECK(platform.storage->bandwidth->value.value() == 40e9);
  CHECK(platform.storage->latency->value.value() == Approx(500e-6));
  CHECK(platform.storage->latency->source == "fio");
  const auto& of_node = *platform.nodes.front().storage;
  CHECK(of_node.bandwidth->value.value() == 5e9);
  CHECK(of_node.bandwidth_while_all->value.value() == 1e9);
  // All nodes of the file, also where fewer are asked for.
  CHECK(of_node.nodes_at_once == node_count(platform));
  CHECK(with_nodes(platform, 1).nodes.front().storage->nodes_at_once == node_count(platform));
  document["nodes"][0]["storage"]["nodes_at_once"] = 77;
  CHECK(read_platform(document, "file.json").nodes.front().storage->nodes_at_once == 77);
  auto lone = document;
  lone["nodes"][0]["storage"].erase("bandwidth_while_all");
  CHECK_THAT(refusal(lone), contains("nodes_at_once") && contains("bandwidth_while_all"));
  document["nodes"][0]["storage"].erase("nodes_at_once");
  CHECK(of_node.disk_bandwidth->value.value() == 3e9);
  CHECK(of_node.disk_latency->value.value() == Approx(100e-6));
  CHECK(of_node.disk_capacity->value.value() == 2e12);
  CHECK(of_node.cache->value.value() == 64e9);
  CHECK(of_node.decoding->value.value() == 90e6);
  CHECK(read_platform(to_json(platform), "file.json") == platform);
}

TEST_CASE("storage that cannot be is refused by its key") {
  const auto storage_of_node = [](const char* key, const json& value) { return refusal(with("/nodes/0/storage", json{{key, value}})); };
  CHECK_THAT(storage_of_node("bandwidth", "-5 GB/s"), contains("nodes[0].storage.bandwidth") && contains("must be from"));
  CHECK_THAT(storage_of_node("disk_bandwidth", "5 GB"), contains("disk_bandwidth"));
  CHECK_THAT(storage_of_node("cache", "plenty"), contains("nodes[0].storage.cache"));
  CHECK_THAT(storage_of_node("cache", "500 TB"), contains("storage.cache") && contains("larger than host_memory"));
  CHECK_THAT(storage_of_node("disk_capacity", "2 TB"), contains("disk_bandwidth") && contains("missing"));
  CHECK_THAT(storage_of_node("decodin", "90 MB/s"), contains("unknown key \"decodin\"; did you mean \"decoding\"?"));
  auto document = catalog_document("xeon-2s-10gbe");
  document["storage"] = {{"latency", 5}};
  CHECK_THAT(refusal(document), contains("storage.latency") && contains("unit"));
  document["storage"] = {{"bandwith", "5 GB/s"}};
  CHECK_THAT(refusal(document), contains("storage: unknown key \"bandwith\""));
}

TEST_CASE("an unknown key is named, with the nearest right one") {
  auto document = catalog_document("dgx-a100");
  document["bandwith"] = "1 GB/s";
  CHECK_THAT(refusal(document), contains("unknown key \"bandwith\""));
  document = catalog_document("dgx-a100");
  document["nodes"][0]["nic"]["bandwith"] = "1 GB/s";
  CHECK_THAT(refusal(document), contains("nodes[0].nic: unknown key \"bandwith\"; did you mean \"bandwidth\"?"));
  document = catalog_document("dgx-a100");
  document["topology"]["ports"] = 4;  // a switch has ports, a fat tree has not
  CHECK_THAT(
      refusal(document),
      contains(
          "topology: unknown key \"ports\"; keys here are kind, arity, levels, oversubscription, adaptive, adds, background, latency"));
  document = catalog_document("dgx-a100");
  document["nodes"][0]["sources"]["prize"] = "a shop";
  CHECK_THAT(refusal(document), contains("\"prize\"") && contains("did you mean \"price\"?"));
  document["nodes"][0]["sources"].erase("prize");
  document["nodes"][0]["device"]["sources"]["clokc"] = "a leaflet";
  CHECK_THAT(refusal(document), contains("nodes[0].device.sources: unknown key \"clokc\"; did you mean \"clock\"?"));
  document["nodes"][0]["sources"] = {{"price", 5}};
  CHECK_THAT(refusal(document), contains("sources.price"));
}

TEST_CASE("a price says on what terms it is, or is yours") {
  auto document = catalog_document("dgx-a100");
  auto& node = document["nodes"][0];
  node["price_basis"] = {{"term", "reserved"}, {"seller", "a cloud"}, {"date", "2026"}};
  const auto read = [&] { return read_platform(document, "here").nodes.front().price_basis; };
  CHECK(read() == PriceBasis{PriceTerm::Reserved, "a cloud", "2026"});
  CHECK(to_text(read()) == "reserved, a cloud, 2026");
  CHECK(read_platform(nlohmann::json(to_json(read_platform(document, "here"))), "again").nodes.front().price_basis == read());
  node["price_basis"] = {{"term", "estimate"}};
  CHECK(to_text(read()) == "estimate, undated");
  node["price_basis"] = {{"term", "spot"}};
  CHECK_THAT(refusal(document), contains("nodes[0].price_basis.term: is \"spot\"") && contains("on demand"));
  node["price_basis"] = {{"seller", "a cloud"}};
  CHECK_THAT(refusal(document), contains("nodes[0].price_basis.term: is missing"));
  node.erase("price_basis");
  CHECK(to_text(read()) == "yours");
  node["device"].erase("price");
  node["device"]["sources"].erase("price");
  CHECK_THAT(refusal(document), contains("nodes[0].device.price_basis: is of a price, which is missing"));  // of nothing
}

TEST_CASE("a missing key is named, with an example") {
  for (const auto* path :
       {"/nodes", "/topology", "/name", "/schema", "/carbon_intensity", "/nodes/0/device", "/nodes/0/device/memory", "/nodes/0/count",
        "/nodes/0/device/peaks/f32", "/nodes/0/intra/latency", "/nodes/0/nic/count", "/topology/arity", "/topology/kind"}) {
    auto document = catalog_document("dgx-a100");
    const json::json_pointer pointer(path);
    document.at(pointer.parent_pointer()).erase(pointer.back());
    if (auto& parent = document.at(pointer.parent_pointer()); parent.contains("sources")) parent.erase("sources");
    INFO(path << ": " << refusal(document));
    CHECK_THAT(refusal(document), contains(pointer.back()) && contains("missing"));
  }
}

TEST_CASE("what is no platform at all is refused") {
  for (const auto* text :
       {"", "{", "[]", "null", "{}", "5", "\"text\"", "{\"nodes\": 1}", "{\"platform\": 3}", "\xff\xfe", "{\"schema\": 1}x", "[1e999]"}) {
    INFO(text);
    CHECK_THAT(refusal_of_text(text), contains("file.json"));
  }
  CHECK_THAT(refusal_of_text("{\"a\":1,\"a\":2}"), contains("\"a\" is given twice"));
  CHECK_THAT(refusal_of_text("{\"n\": [{\"count\": 1, \"count\": 1}]}"), contains("\"count\" is given twice"));
  CHECK_THAT(refusal_of_text(std::string(100'000, '[')), contains("nested deeper"));
  std::string objects;
  for (int i = 0; i < 50'000; ++i) objects += "{\"a\":";
  CHECK_THAT(refusal_of_text(objects), contains("nested deeper"));
  CHECK_THAT(refusal(with("/schema", 2)), contains("schema"));
}

TEST_CASE("parts that contradict each other are refused by the file's name") {
  CHECK_THAT(refusal(with("/nodes/0/count", 8001)), contains("file.json: nodes.count") && contains("holds 8000"));
  CHECK_THAT(refusal(with("/topology/arity", 1)), contains("topology.arity"));
  CHECK_THAT(refusal(with("/topology/kind", "fattree")), contains("topology.kind") && contains("fat-tree"));
  CHECK_THAT(refusal(with("/nodes/0/device/kind", "npu")), contains("cpu, gpu, accelerator"));
  CHECK_THAT(refusal(with("/nodes/0/intra/wires/0/b", 8, "dgx1-v100")), contains("nodes[0].intra.wires[0]") && contains("from 0 to 7"));
  CHECK_THAT(refusal(with("/nodes/0/intra/wires/1/b", 1, "dgx1-v100")), contains("wires[1]") && contains("same devices"));
  CHECK_THAT(refusal(with("/nodes/0/intra/kind", "nvswitch", "dgx1-v100")), contains("wires"));

  auto endless = with(
      "/topology",
      {{"kind", "dragonfly"}, {"groups", 65536}, {"routers", 4096}, {"nodes_per_router", 1}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}});
  CHECK_THAT(refusal(endless), contains("file.json: topology") && contains("4 billion links"));

  auto document = catalog_document("xeon-2s-10gbe");
  const json leaf{{"from", "node0"}, {"to", "rack"}, {"bandwidth", "1 GB/s"}, {"latency", "1 us"}};
  document["nodes"][0]["count"] = 1;
  document["topology"] = {{"kind", "links"}, {"cables", {leaf}}};
  CHECK(refusal(document).empty());
  document["topology"]["cables"].push_back(leaf);
  CHECK_THAT(refusal(document), contains("file.json: topology.cables[1]") && contains("cycle"));
  document["topology"]["cables"][1] = {{"from", "node1"}, {"to", "cellar"}, {"bandwidth", "1 GB/s"}, {"latency", "1 us"}};
  CHECK_THAT(refusal(document), contains("topology.cables") && contains("cannot be reached"));
}

TEST_CASE("files with broken bytes are read or refused, never worse") {
  int accepted = 0;
  for (const std::string name : kMachines) {
    const auto whole = to_json_text(load(name, {}));
    for (std::uint64_t i = 0; i < 300; ++i) {
      auto text = whole;
      for (std::uint64_t flip = 0; flip <= i % 4; ++flip) {
        const auto bits = random_bits(11, i, flip);
        text[bits % text.size()] = static_cast<char>(text[bits % text.size()] ^ (1 << (bits >> 40) % 8));
      }
      if (i % 10 == 0) text.resize(random_bits(12, i, 0) % text.size());
      try {
        const auto platform = read_platform_text(text, "file.json");
        const Fabric fabric(platform);
        CHECK(fabric.route(0, device_count(platform) - 1).latency >= Seconds(0));
        ++accepted;
      } catch (const BadInput& error) {
        CHECK(std::string(error.what()).find("file.json") == 0);
      }
    }
  }
  CHECK(accepted > 100);  // flips inside sources and names
}

TEST_CASE("a calibrated machine holds a platform beside other parts") {
  auto machine = to_json(cluster(1, 2, 0, "single", {}));
  machine["sources"] = json::object();
  const json file{{"schema", 7}, {"platform", machine}, {"calibration", {{"anything", "goes"}}}};
  CHECK(device_count(read_platform(file, "machine.json")) == 2);
  auto broken = file;
  broken["platform"]["nodes"][0]["host_power"] = "5";
  CHECK_THAT(refusal(broken), contains("file.json: platform.nodes[0].host_power"));
  broken = file;
  broken["platform"]["nodes"][0]["count"] = 2;
  CHECK_THAT(refusal(broken), contains("file.json: platform.nodes.count"));
}

TEST_CASE("what is written reads back the same") {
  std::vector<Platform> platforms{
      cluster(1, 2, 0, "single", {}),
      with_devices(cluster(8, 4, 2, "fat-tree", {{"arity", {4}}, {"levels", {2}}, {"oversubscription", {2}}}), 30),
      cluster(4, 2, 1, "torus", {{"dims", {2, 2, 3}}}),
      cluster(4, 2, 1, "dragonfly", {{"groups", {2}}, {"routers", {2}}, {"nodes_per_router", {2}}}),
      cluster(4, 2, 1, "hyperx", {{"grid", {3, 2}}, {"nodes_per_switch", {2}}, {"width", {2}}}),
      cluster(4, 2, 1, "hyperx", {{"grid", {3, 2}}, {"nodes_per_switch", {2}}, {"adaptive", {1}}}),
      cluster(8, 1, 1, "fat-tree", {{"arity", {4}}, {"levels", {2}}, {"adaptive", {1}}}),
      cluster(8, 4, 2, "rails", {{"nodes_per_leaf", {4}}, {"groups", {2}}, {"oversubscription", {2}}}),
      cluster(8, 4, 4, "rails", {{"nodes_per_leaf", {8}}, {"spine", {0}}}),
      tree(2, 1, {cable("node0", "rack", 1e9 / 3, 1.1e-6), cable("rack", "node1", 1e9, 0)}),
  };
  platforms[0].topology.bandwidth = {};  // a single node has none to write
  platforms[0].topology.latency = {};
  platforms[0].nodes[0].device.host_bandwidth = Sourced<BytesPerSecond>(BytesPerSecond(1.0 / 3 * 1e10), "measured");
  platforms[0].nodes[0].device.peaks["f32"] = {FlopsPerSecond(123456789012.345), "measured twice"};
  platforms[0].pue = {1.25, "the bill"};
  for (const auto& file : embedded_catalog()) platforms.push_back(load(std::string(file.name), {}));
  for (const auto& platform : platforms) {
    const auto text = to_json_text(platform);
    INFO(text);
    CHECK(read_platform_text(text, "copy.json") == platform);
    CHECK(to_json(platform) == json::parse(text));
  }
}

TEST_CASE("files are found, and refused by their name") {
  const auto folder = std::filesystem::temp_directory_path() / ("rehearsal-platforms-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "mine.json") << to_json_text(cluster(1, 3, 0, "single", {}));
  CHECK(device_count(load((folder / "mine.json").string(), {})) == 3);
  CHECK(device_count(load("mine", {folder})) == 3);
  const auto names = catalog_names({folder});
  CHECK(std::ranges::count(names, "mine") == 1);
  CHECK(std::ranges::count(names, "dgx-a100") == 1);
  CHECK_THROWS_WITH(load("mine", {}), contains("\"mine\"") && contains("`rehearse platform list` lists all"));
  CHECK_THROWS_WITH(load("dgx-a10", {}), contains("did you mean \"dgx-a100\"?"));
  CHECK_THROWS_WITH(load("", {}), contains("catalogue"));
  CHECK_THROWS_WITH(load((folder / "no.json").string(), {}), contains("no.json") && contains("cannot be opened"));
  CHECK_THROWS_WITH(load(folder.string() + "/", {}), contains("is a folder"));
  CHECK_THROWS_AS(load("/dev/null", {}), BadInput);
  std::filesystem::remove_all(folder);
}
