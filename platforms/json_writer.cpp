#include <nlohmann/json.hpp>

#include "platforms/json.hpp"
#include "platforms/topology.hpp"

namespace rehearsal::platforms {
namespace {

using Ordered = nlohmann::ordered_json;

/// One object; the sources of its figures are collected and come last.
class ObjectWriter {
 public:
  template <class Value>
  void plain(const std::string& key, Value&& value) {
    object_[key] = std::forward<Value>(value);
  }
  template <class Q>
  void quantity(const std::string& key, const Sourced<Q>& figure) {
    object_[key] = to_exact_text(figure.value);
    source(key, figure.source);
  }
  template <class Q>
  void quantity(const std::string& key, const std::optional<Sourced<Q>>& figure) {
    if (figure) quantity(key, *figure);
  }
  void number(const std::string& key, const Sourced<double>& figure) {
    object_[key] = figure.value;
    source(key, figure.source);
  }
  void number(const std::string& key, const std::optional<Sourced<double>>& figure) {
    if (figure) number(key, *figure);
  }
  /// Left out where nothing is known of them.
  template <class Part>
  void powers(const Part& part) {
    if (part.idle_power == Sourced<Watts>{} && part.busy_power == Sourced<Watts>{}) return;
    quantity("idle_power", part.idle_power);
    quantity("busy_power", part.busy_power);
  }
  /// Left out where it is the user's own.
  void basis(const PriceBasis& of_price) {
    if (of_price == PriceBasis{}) return;
    auto& written = object_["price_basis"] = {{"term", name(of_price.term)}};
    if (!of_price.seller.empty()) written["seller"] = of_price.seller;
    if (!of_price.date.empty()) written["date"] = of_price.date;
  }
  [[nodiscard]] Ordered take() {
    if (!sources_.empty()) object_["sources"] = std::move(sources_);
    return std::move(object_);
  }

 private:
  void source(const std::string& key, const std::string& text) {
    if (!text.empty()) sources_[key] = text;
  }

  Ordered object_ = Ordered::object();
  Ordered sources_ = Ordered::object();
};

Ordered peaks_json(const Device& device) {
  ObjectWriter writer;
  for (const auto& [arithmetic, peak] : device.peaks) writer.quantity(arithmetic, peak);
  return writer.take();
}

Ordered device_json(const Device& device) {
  ObjectWriter writer;
  writer.plain("name", device.name);
  if (!device.aliases.empty()) writer.plain("aliases", device.aliases);
  writer.plain("kind", std::string(name(device.kind)));
  if (!device.generation.empty()) writer.plain("generation", device.generation);
  writer.plain("compute_units", device.compute_units);
  writer.number("compute_capability", device.compute_capability);
  writer.plain("peaks", peaks_json(device));
  if (!device.matrix_units.empty()) writer.plain("matrix_units", device.matrix_units);
  writer.quantity("clock", device.clock);
  writer.quantity("l2", device.l2);
  if (!device.memory_type.empty()) writer.plain("memory_type", device.memory_type);
  writer.quantity("memory", device.memory);
  writer.number("memory_bus", device.memory_bus);
  writer.quantity("memory_bandwidth", device.memory_bandwidth);
  writer.quantity("idle_power", device.idle_power);
  writer.quantity("busy_power", device.busy_power);
  writer.quantity("launch_overhead", device.launch_overhead);
  writer.quantity("host_bandwidth", device.host_bandwidth);
  writer.quantity("link_bandwidth", device.link_bandwidth);
  writer.quantity("price", device.price);
  writer.basis(device.price_basis);
  writer.quantity("time_between_failures", device.time_between_failures);
  return writer.take();
}

Ordered intra_json(const IntraLink& intra) {
  ObjectWriter writer;
  writer.plain("kind", std::string(name(intra.kind)));
  writer.quantity("bandwidth", intra.bandwidth);
  writer.quantity("latency", intra.latency);
  writer.quantity("total_bandwidth", intra.total_bandwidth);
  writer.powers(intra);
  if (intra.wires.empty()) return writer.take();
  auto wires = Ordered::array();
  for (const auto& wire : intra.wires) wires.push_back({{"a", wire.a}, {"b", wire.b}, {"count", wire.count}});
  writer.plain("wires", std::move(wires));
  return writer.take();
}

Ordered nic_json(const Nic& nic) {
  ObjectWriter writer;
  writer.plain("count", nic.count);
  if (nic.kind != NicKind()) writer.plain("kind", name(nic.kind));
  writer.quantity("bandwidth", nic.bandwidth);
  writer.quantity("latency", nic.latency);
  writer.powers(nic);
  return writer.take();
}

Ordered node_storage_json(const NodeStorage& storage) {
  ObjectWriter writer;
  writer.quantity("bandwidth", storage.bandwidth);
  writer.quantity("bandwidth_while_all", storage.bandwidth_while_all);
  if (storage.nodes_at_once > 0) writer.plain("nodes_at_once", storage.nodes_at_once);
  writer.quantity("disk_bandwidth", storage.disk_bandwidth);
  writer.quantity("disk_latency", storage.disk_latency);
  writer.quantity("disk_capacity", storage.disk_capacity);
  writer.quantity("cache", storage.cache);
  writer.quantity("decoding", storage.decoding);
  return writer.take();
}

Ordered shared_storage_json(const SharedStorage& storage) {
  ObjectWriter writer;
  writer.quantity("bandwidth", storage.bandwidth);
  writer.quantity("latency", storage.latency);
  return writer.take();
}

Ordered group_json(const NodeGroup& group) {
  ObjectWriter writer;
  writer.plain("name", group.name);
  writer.plain("count", group.count);
  writer.plain("devices", group.devices);
  writer.plain("device", device_json(group.device));
  writer.plain("intra", intra_json(group.intra));
  if (group.nic.count > 0) writer.plain("nic", nic_json(group.nic));
  writer.plain("host_cores", group.host_cores);
  writer.quantity("host_memory", group.host_memory);
  writer.quantity("host_memory_bandwidth", group.host_memory_bandwidth);
  writer.quantity("host_power", group.host_power);
  writer.quantity("price", group.price);
  writer.basis(group.price_basis);
  writer.quantity("storage_bandwidth", group.storage_bandwidth);
  if (group.storage) writer.plain("storage", node_storage_json(*group.storage));
  return writer.take();
}

Ordered cables_json(const std::vector<Cable>& cables) {
  auto list = Ordered::array();
  for (const auto& cable : cables) {
    ObjectWriter writer;
    writer.plain("from", cable.from);
    writer.plain("to", cable.to);
    writer.quantity("bandwidth", cable.bandwidth);
    writer.quantity("latency", cable.latency);
    list.push_back(writer.take());
  }
  return list;
}

Ordered topology_json(const Topology& topology) {
  const auto& row = topology_row(topology.kind);
  ObjectWriter writer;
  writer.plain("kind", topology.kind);
  for (const auto& parameter : row.parameters)
    if (const auto found = topology.parameters.find(parameter.key); found != topology.parameters.end())
      writer.plain(std::string(parameter.key), parameter.most == 1 ? Ordered(found->second.front()) : Ordered(found->second));
  if (row.has_latency) writer.quantity("latency", topology.latency);
  if (row.has_links) {
    writer.quantity("bandwidth", topology.bandwidth);
    writer.powers(topology);
  }
  if (row.has_cables) writer.plain("cables", cables_json(topology.cables));
  return writer.take();
}

Ordered platform_json(const Platform& platform) {
  ObjectWriter writer;
  writer.plain("schema", kPlatformSchema);
  writer.plain("name", platform.name);
  if (!platform.description.empty()) writer.plain("description", platform.description);
  auto nodes = Ordered::array();
  for (const auto& group : platform.nodes) nodes.push_back(group_json(group));
  writer.plain("nodes", std::move(nodes));
  if (platform.device_limit) writer.plain("device_limit", *platform.device_limit);
  writer.plain("topology", topology_json(platform.topology));
  writer.quantity("storage_bandwidth", platform.storage_bandwidth);
  if (platform.storage) writer.plain("storage", shared_storage_json(*platform.storage));
  writer.quantity("restart_time", platform.restart_time);
  writer.quantity("replacement_time", platform.replacement_time);
  writer.quantity("carbon_intensity", platform.carbon_intensity);
  writer.number("pue", platform.pue);
  writer.quantity("electricity_price", platform.electricity_price);
  return writer.take();
}

}  // namespace

nlohmann::json to_json(const Platform& platform) { return nlohmann::json::parse(platform_json(platform).dump()); }

std::string to_json_text(const Platform& platform) { return platform_json(platform).dump(2) + "\n"; }

}  // namespace rehearsal::platforms
