#include "platforms/json.hpp"

#include <limits>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "platforms/device_json.hpp"
#include "platforms/devices.hpp"
#include "platforms/embedded_catalog.hpp"
#include "platforms/fabric.hpp"
#include "platforms/object_reader.hpp"
#include "platforms/schema_check.hpp"
#include "platforms/strict_json.hpp"
#include "platforms/topology.hpp"

namespace rehearsal::platforms {
namespace {

using nlohmann::json;

constexpr std::size_t kMostGroups = 1000, kMostWires = 100'000, kMostCables = 1'000'000;

/// Powers of a part that may leave them out.
template <class Part>
void read_powers(ObjectReader& reader, Part& part) {
  part.idle_power = reader.quantity_or("idle_power", kPowers, Watts(0));
  part.busy_power = reader.quantity_or("busy_power", kPowers, *part.idle_power);
  check_powers(reader, part);
}

/// Written out, or the name of one of the catalogue.
Device read_device_of(ObjectReader& reader) {
  if (!reader.is_text("device")) return read_device(reader.object("device"));
  const auto name = reader.text("device");
  try {
    return load_device(name);
  } catch (const BadInput& refusal) {
    reader.refuse("device", refusal.what());
  }
}

IntraLink read_intra(ObjectReader reader) {
  IntraLink intra;
  intra.kind = static_cast<IntraKind>(reader.choice("kind", kIntraKindNames));
  intra.bandwidth = reader.quantity("bandwidth", kBandwidths);
  intra.latency = reader.quantity("latency", kLatencies);
  if (reader.has("total_bandwidth")) intra.total_bandwidth = reader.quantity("total_bandwidth", kBandwidths);
  read_powers(reader, intra);
  if (reader.has("wires"))
    for (auto& wire : reader.objects("wires", 1, kMostWires)) {
      intra.wires.push_back({static_cast<int>(wire.integer("a", 0, 1'000'000)), static_cast<int>(wire.integer("b", 0, 1'000'000)),
                             static_cast<int>(wire.integer("count", 1, 1000))});
      wire.finish();
    }
  reader.finish();
  return intra;
}

Nic read_nic(ObjectReader reader) {
  Nic nic;
  nic.count = static_cast<int>(reader.integer("count", 1, 100'000));
  if (reader.has("kind")) nic.kind = static_cast<NicKind>(reader.choice("kind", kNicKindNames));
  nic.bandwidth = reader.quantity("bandwidth", kBandwidths);
  nic.latency = reader.quantity("latency", kLatencies);
  read_powers(reader, nic);
  reader.finish();
  return nic;
}

NodeStorage read_node_storage(ObjectReader reader) {
  NodeStorage storage;
  storage.bandwidth = reader.quantity_or_none("bandwidth", kBandwidths);
  storage.bandwidth_while_all = reader.quantity_or_none("bandwidth_while_all", kBandwidths);
  if (reader.has("nodes_at_once")) {
    storage.nodes_at_once = static_cast<int>(reader.integer("nodes_at_once", 1, kMostDevices));
    if (!storage.bandwidth_while_all) reader.refuse("nodes_at_once", "says how many nodes bandwidth_while_all is of, which is missing");
  }
  storage.disk_bandwidth = reader.quantity_or_none("disk_bandwidth", kBandwidths);
  storage.disk_latency = reader.quantity_or_none("disk_latency", kLatencies);
  storage.disk_capacity = reader.quantity_or_none("disk_capacity", kMemory);
  storage.cache = reader.quantity_or_none("cache", kMemory);
  storage.decoding = reader.quantity_or_none("decoding", kBandwidths);
  reader.finish();
  if (!storage.disk_bandwidth && (storage.disk_latency || storage.disk_capacity))
    reader.refuse("disk_bandwidth", "is missing; other figures of the node's disks are there");
  return storage;
}

SharedStorage read_shared_storage(ObjectReader reader) {
  SharedStorage storage{reader.quantity_or_none("bandwidth", kBandwidths), reader.quantity_or_none("latency", kLatencies)};
  reader.finish();
  return storage;
}

NodeGroup read_group(ObjectReader reader) {
  NodeGroup group;
  group.name = reader.text("name");
  group.count = static_cast<int>(reader.integer("count", 1, kMostDevices));
  group.devices = static_cast<int>(reader.integer("devices", 1, kMostDevices));
  group.device = read_device_of(reader);
  group.intra = read_intra(reader.object("intra"));
  if (reader.has("nic")) group.nic = read_nic(reader.object("nic"));
  group.host_cores = static_cast<int>(reader.integer("host_cores", 1, 1'000'000));
  group.host_memory = reader.quantity("host_memory", kMemory);
  group.host_memory_bandwidth = reader.quantity_or_none("host_memory_bandwidth", kBandwidths);
  group.host_power = reader.quantity("host_power", kPowers);
  group.price = reader.quantity("price", kPrices);
  group.price_basis = read_price_basis(reader);
  group.storage_bandwidth = reader.quantity_or_none("storage_bandwidth", kBandwidths);
  if (reader.has("storage")) {
    group.storage = read_node_storage(reader.object("storage"));
    if (group.storage->cache && group.storage->cache->value > group.host_memory.value)
      reader.refuse("storage.cache", "is larger than host_memory");
  }
  reader.finish();
  return group;
}

Topology read_topology(ObjectReader reader) {
  std::vector<std::string_view> kinds;
  for (const auto* row : topology_rows()) kinds.push_back(row->kind);
  const auto& row = *topology_rows()[reader.choice("kind", kinds)];
  Topology topology;
  topology.kind = row.kind;
  for (const auto& parameter : row.parameters)
    if (reader.has(parameter.key) || !parameter.fallback)
      topology.parameters.emplace(parameter.key, reader.integers(parameter.key, parameter.low, parameter.high, parameter.most));
  if (row.has_latency) topology.latency = reader.quantity("latency", kLatencies);
  if (row.has_links) {
    topology.bandwidth = reader.quantity("bandwidth", kBandwidths);
    read_powers(reader, topology);
  }
  if (row.has_cables)
    for (auto& cable : reader.objects("cables", 1, kMostCables)) {
      topology.cables.push_back(
          {cable.text("from"), cable.text("to"), cable.quantity("bandwidth", kBandwidths), cable.quantity("latency", kLatencies)});
      cable.finish();
    }
  reader.finish();
  return topology;
}

/// What the building adds: the electricity and its price.
void read_site(ObjectReader& reader, Platform& platform) {
  platform.carbon_intensity = reader.quantity("carbon_intensity", kCarbon);
  platform.pue = reader.number("pue", 1, 10);
  platform.electricity_price = reader.quantity("electricity_price", kElectricityPrices);
}

/// The site of the catalogue that the key "site" names.
json site_text(ObjectReader& reader) {
  const auto name = reader.text("site");
  std::string known;
  for (const auto& file : embedded_sites()) {
    if (file.name == name) return json::parse(file.text);
    known += (known.empty() ? "" : ", ") + std::string(file.name);
  }
  reader.refuse("site", "is \"" + name + "\", which the catalogue does not have; it has " + known);
}

/// So that what all nodes read together stays what it is where a part of them is asked for.
void keep_nodes_at_once(Platform& platform) {
  for (auto& group : platform.nodes)
    if (group.storage && group.storage->bandwidth_while_all && group.storage->nodes_at_once == 0)
      group.storage->nodes_at_once = node_count(platform);
}

Platform read_document(ObjectReader reader) {
  Platform platform;
  if (reader.has("$schema")) static_cast<void>(reader.text("$schema"));  // for editors: what checks the file while it is written
  if (reader.integer("schema", 1, std::numeric_limits<int>::max()) != kPlatformSchema)
    reader.refuse("schema", "is of a version that this program cannot read; it reads " + std::to_string(kPlatformSchema));
  platform.name = reader.text("name");
  platform.description = reader.text_or("description", "");
  for (auto& group : reader.objects("nodes", 1, kMostGroups)) platform.nodes.push_back(read_group(std::move(group)));
  keep_nodes_at_once(platform);
  if (reader.has("device_limit")) platform.device_limit = static_cast<int>(reader.integer("device_limit", 1, kMostDevices));
  platform.topology = read_topology(reader.object("topology"));
  platform.storage_bandwidth = reader.quantity_or_none("storage_bandwidth", kBandwidths);
  if (reader.has("storage")) platform.storage = read_shared_storage(reader.object("storage"));
  platform.restart_time = reader.quantity_or_none("restart_time", kWaits);
  platform.replacement_time = reader.quantity_or_none("replacement_time", kWaits);
  if (reader.has("site")) {
    const auto text = site_text(reader);
    ObjectReader site(text, "catalog/sites", "");
    read_site(site, platform);
    site.finish();
  } else {
    read_site(reader, platform);
  }
  reader.finish();
  return platform;
}

}  // namespace

Platform read_platform(const json& value, const std::string& where) {
  const bool inside = value.is_object() && value.contains("platform");
  const auto& document = inside ? value.at("platform") : value;
  auto platform = read_document(ObjectReader(document, where, inside ? "platform" : ""));
  try {
    const Fabric whole(platform);  // its parts fit together, and its links can be numbered
  } catch (const BadInput& refusal) {
    throw BadInput(where, (inside ? "platform." : "") + std::string(refusal.what()));
  }
  check_against_schema(document, where);
  return platform;
}

Platform read_platform_text(const std::string& text, const std::string& where) {
  return read_platform(parse_strict_json(text, where), where);
}

Platform read_platform_file(const std::string& path) { return read_platform(read_json_file(path), path); }

std::string_view platform_schema() { return embedded_schema(); }

}  // namespace rehearsal::platforms
