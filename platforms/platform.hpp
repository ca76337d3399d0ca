#pragma once
// What training runs on, as plain values: devices, nodes, topology, power, price. Every figure keeps
// where it comes from. A rank is a device: rank r runs on the r-th device, nodes being filled in order.
// Reading and writing: platforms/json.hpp. Links and routes: platforms/fabric.hpp. Real machines: platforms/catalog.hpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::platforms {

/// A figure and where it comes from (datasheet, measurement, estimate). The text may be empty in a user's own file.
template <class T>
struct Sourced {
  T value{};
  std::string source;

  Sourced() = default;
  Sourced(T v, std::string where = {}) : value(v), source(std::move(where)) {}  // NOLINT: a bare value is a figure without source
  [[nodiscard]] T operator*() const { return value; }
  friend bool operator==(const Sourced&, const Sourced&) = default;
};
/// "10 $/h (a quote)": `figure` is a text of it.
template <class T>
[[nodiscard]] std::string with_source(const std::string& figure, const Sourced<T>& sourced) {
  return figure + " (" + (sourced.source.empty() ? "no source given" : sourced.source) + ")";
}

/// On what terms a price is. Yours: whoever wrote the file knows.
enum class PriceTerm : std::uint8_t { Yours, OnDemand, Reserved, Bought, Estimate };
inline constexpr std::array<std::string_view, 5> kPriceTermNames{"yours", "on demand", "reserved", "bought", "estimate"};
[[nodiscard]] constexpr std::string_view name(PriceTerm term) { return kPriceTermNames[static_cast<std::size_t>(term)]; }

/// Prices of two bases compare sellers and years as much as machines.
struct PriceBasis {
  PriceTerm term = PriceTerm::Yours;
  std::string seller;  ///< "AWS"; empty: none, or not known
  std::string date;    ///< "2023 to 2025"; empty: not known
  friend bool operator==(const PriceBasis&, const PriceBasis&) = default;
};
/// "on demand, AWS, 2023 to 2025", "bought, undated", "yours"
[[nodiscard]] std::string to_text(const PriceBasis&);

enum class DeviceKind : std::uint8_t { Cpu, Gpu, Accelerator };
inline constexpr std::array<std::string_view, 3> kDeviceKindNames{"cpu", "gpu", "accelerator"};
[[nodiscard]] constexpr std::string_view name(DeviceKind kind) { return kDeviceKindNames[static_cast<std::size_t>(kind)]; }

/// One processor that a rank occupies: a GPU, or one CPU core or group of cores.
struct Device {
  std::string name;                  ///< "A100-SXM4-80GB"
  std::vector<std::string> aliases;  ///< other names it goes by: platforms/devices.hpp finds it by them
  DeviceKind kind = DeviceKind::Gpu;
  std::string generation;  ///< family that shares efficiencies, lower case: "ampere", "hopper", "x86"; empty where unknown
  int compute_units = 1;   ///< multiprocessors of a GPU, cores of a processor: `peaks` are of all of them
  std::optional<Sourced<double>> compute_capability;  ///< of NVIDIA's GPUs: 7.5, 8.0, 12.0
  /// Dense peak of the arithmetic named "f64", "f32", "tf32", "f16", "bf16", "fp8", "fp4" (matrix units where the device has them).
  std::map<std::string, Sourced<FlopsPerSecond>, std::less<>> peaks;
  /// The arithmetics of `peaks` that matrix units (tensor cores, matrix cores, systolic arrays) compute; the others run on vector units.
  std::vector<std::string> matrix_units;
  std::optional<Sourced<Hertz>> clock;        ///< at which the vector units reach their peak (boost clock)
  std::optional<Sourced<Bytes>> l2;           ///< last cache that all compute units share
  std::string memory_type;                    ///< "HBM2e", "GDDR6X", "DDR5"; empty where unknown
  Sourced<Bytes> memory;                      ///< capacity that one rank may use
  std::optional<Sourced<double>> memory_bus;  ///< bits that the memory moves at once, all chips together
  Sourced<BytesPerSecond> memory_bandwidth;
  Sourced<Watts> idle_power;
  Sourced<Watts> busy_power;                              ///< sustained maximum (TDP)
  Sourced<Seconds> launch_overhead;                       ///< gap that starting one kernel leaves on the device
  std::optional<Sourced<BytesPerSecond>> host_bandwidth;  ///< to host memory, per direction; absent: device memory is host memory
  std::optional<Sourced<BytesPerSecond>> link_bandwidth;  ///< all links to other devices (NVLink, Infinity Fabric, ICI), per direction
  std::optional<Sourced<DollarsPerHour>> price;           ///< of renting one
  PriceBasis price_basis;
  /// Mean, of what interrupts a training that uses it: the device itself and its share of the node, the network and the software around it.
  std::optional<Sourced<Seconds>> time_between_failures;
  friend bool operator==(const Device&, const Device&) = default;

  /// Peak of an arithmetic; nothing where the device does not have it.
  [[nodiscard]] std::optional<FlopsPerSecond> peak(std::string_view arithmetic) const;
  [[nodiscard]] bool on_matrix_units(std::string_view arithmetic) const;
};

enum class IntraKind : std::uint8_t {
  SharedMemory,  ///< ranks copy through one memory bus
  Pcie,          ///< device — bridge — device
  NvlinkMesh,    ///< point-to-point wires, listed in `wires`
  Nvswitch,      ///< every device to a crossbar
};
inline constexpr std::array<std::string_view, 4> kIntraKindNames{"shared-memory", "pcie", "nvlink-mesh", "nvswitch"};
[[nodiscard]] constexpr std::string_view name(IntraKind kind) { return kIntraKindNames[static_cast<std::size_t>(kind)]; }

/// Parallel wires between two devices of a node.
struct Wire {
  int a = 0, b = 0;
  int count = 1;
  friend bool operator==(const Wire&, const Wire&) = default;
};

/// How the devices of one node reach each other.
struct IntraLink {
  IntraKind kind = IntraKind::SharedMemory;
  Sourced<BytesPerSecond> bandwidth;  ///< per direction: of a device's port; of one wire for nvlink-mesh
  Sourced<Seconds> latency;           ///< one way from device to device (per wire crossed for nvlink-mesh)
  /// All ports together (memory bus, host bridge, crossbar). Absent: `bandwidth` for shared-memory, else no limit.
  std::optional<Sourced<BytesPerSecond>> total_bandwidth;
  std::vector<Wire> wires;                ///< nvlink-mesh only
  Sourced<Watts> idle_power, busy_power;  ///< of one port or wire and direction, beyond what the device's own figures hold
  friend bool operator==(const IntraLink&, const IntraLink&) = default;
};

/// The shape of a node's wiring, as collectives see it: "single" (one device), "memory", "pcie", "switch"; of wires "mesh" (every two
/// devices joined by the same number), "cube" (eight devices, four or more wires each, not all pairs), else "wires".
[[nodiscard]] std::string_view intra_topology(const IntraLink&, int devices);

enum class NicKind : std::uint8_t { Rdma, Ethernet };  ///< reads and writes remote memory itself, or sends through the host (TCP)
inline constexpr std::array<std::string_view, 2> kNicKindNames{"rdma", "ethernet"};
[[nodiscard]] constexpr std::string_view name(NicKind kind) { return kNicKindNames[static_cast<std::size_t>(kind)]; }

/// The network cards of one node. Device d of D uses card floor(d·count/D); more cards than devices are bundled per device.
struct Nic {
  int count = 0;  ///< 0: the node has no network
  NicKind kind = NicKind::Rdma;
  Sourced<BytesPerSecond> bandwidth;      ///< one card, per direction
  Sourced<Seconds> latency;               ///< device memory to the wire (or back), one way
  Sourced<Watts> idle_power, busy_power;  ///< one card and direction
  friend bool operator==(const Nic&, const Nic&) = default;
};

/// Where a node gets samples from and what it keeps of them. What is absent is not known.
struct NodeStorage {
  std::optional<Sourced<BytesPerSecond>> bandwidth;            ///< at which it reads the shared file system when no other node does
  std::optional<Sourced<BytesPerSecond>> bandwidth_while_all;  ///< the same while `nodes_at_once` do
  std::optional<Sourced<BytesPerSecond>> disk_bandwidth;       ///< at which its own disks are read; absent: it has none
  std::optional<Sourced<Seconds>> disk_latency;                ///< of one request to them
  std::optional<Sourced<Bytes>> disk_capacity;                 ///< for samples
  std::optional<Sourced<Bytes>> cache;                         ///< memory of the host that may hold samples
  /// Of one core: bytes of pixels, one for each of three channels, that it makes of JPEG in a second, until the model can have them.
  std::optional<Sourced<BytesPerSecond>> decoding;
  int nodes_at_once = 0;  ///< of bandwidth_while_all: a file that says nothing means all its nodes; 0: all of the platform
  friend bool operator==(const NodeStorage&, const NodeStorage&) = default;
};

/// A file system that all nodes read.
struct SharedStorage {
  std::optional<Sourced<BytesPerSecond>> bandwidth;  ///< of all nodes together; absent: as much as they can read
  std::optional<Sourced<Seconds>> latency;           ///< of one request: opening a file and its first byte
  friend bool operator==(const SharedStorage&, const SharedStorage&) = default;
};

/// A group of identical nodes.
struct NodeGroup {
  std::string name;
  int count = 1;    ///< nodes of this kind
  int devices = 1;  ///< devices of one node
  Device device;
  IntraLink intra;
  Nic nic;
  int host_cores = 1;  ///< physical cores of the host
  Sourced<Bytes> host_memory;
  std::optional<Sourced<BytesPerSecond>> host_memory_bandwidth;  ///< at which the host reads and writes it, all sockets together
  Sourced<Watts> host_power;                                     ///< everything in the node but the devices
  Sourced<DollarsPerHour> price;                                 ///< the whole node
  PriceBasis price_basis;
  std::optional<Sourced<BytesPerSecond>> storage_bandwidth;  ///< at which it writes checkpoints while all nodes do
  std::optional<NodeStorage> storage;                        ///< that samples come from
  friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

/// One cable of a topology given link by link ("links"). Ends are "node0", "node1", …; any other name is a switch.
struct Cable {
  std::string from, to;
  Sourced<BytesPerSecond> bandwidth;  ///< per direction
  Sourced<Seconds> latency;           ///< one way, the switch at its end included
  friend bool operator==(const Cable&, const Cable&) = default;
};

/// How nodes reach each other. `kind` is the name of a row of platforms/topology.hpp, which says which parameters it has.
struct Topology {
  std::string kind = "single";
  std::map<std::string, std::vector<std::int64_t>, std::less<>> parameters;
  Sourced<BytesPerSecond> bandwidth;      ///< one link between switches, per direction
  Sourced<Seconds> latency;               ///< crossing one switch
  Sourced<Watts> idle_power, busy_power;  ///< one switch-to-switch link and direction
  std::vector<Cable> cables;              ///< kind "links" only
  friend bool operator==(const Topology&, const Topology&) = default;
};

struct Platform {
  std::string name;
  std::string description;
  std::vector<NodeGroup> nodes;     ///< at least one group; ranks fill the groups in order
  std::optional<int> device_limit;  ///< use only the first so many devices (set by with_devices)
  std::optional<int> node_limit;    ///< use only the first so many nodes (set by with_limits; no part of files)
  std::vector<int> slots;           ///< by node: its place in the topology (set by in_order; no part of files); empty: its own number
  Topology topology;
  Sourced<KilogramsPerJoule> carbon_intensity;  ///< of the electricity, CO2 equivalent
  Sourced<double> pue{1.0};                     ///< power of the building over power of the machines, at least 1
  Sourced<DollarsPerJoule> electricity_price;
  std::optional<Sourced<BytesPerSecond>> storage_bandwidth;  ///< at which all nodes together write checkpoints
  std::optional<SharedStorage> storage;                      ///< that samples come from
  std::optional<Sourced<Seconds>> restart_time;              ///< from a failure until training begins again on nodes that are there
  std::optional<Sourced<Seconds>> replacement_time;          ///< until a node that failed is repaired or replaced
  friend bool operator==(const Platform&, const Platform&) = default;
};

/// Where a rank runs.
struct Placement {
  int group = 0;  ///< index into Platform::nodes
  int node = 0;   ///< counted over all groups
  int local = 0;  ///< device of that node
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// All nodes, or `node_limit`.
[[nodiscard]] int node_count(const Platform&);
/// Devices that ranks may occupy: all devices of all nodes, within the limits.
[[nodiscard]] int device_count(const Platform&);
/// The same where the groups with most devices a node are filled first.
[[nodiscard]] int most_devices(const Platform&);
/// Throws InternalError when `rank` is not below device_count.
[[nodiscard]] Placement place(const Platform&, int rank);
[[nodiscard]] const NodeGroup& node_of(const Platform&, int rank);
[[nodiscard]] const Device& device_of(const Platform&, int rank);

/// The same platform with `nodes` nodes. One group grows to what the topology holds, several shrink from the end.
/// Throws BadInput for less than one, or more than the platform can have.
[[nodiscard]] Platform with_nodes(const Platform&, std::int64_t nodes);
/// The same platform with the first `devices` devices, on as few nodes as hold them. Throws BadInput like with_nodes.
[[nodiscard]] Platform with_devices(const Platform&, std::int64_t devices);
/// The same platform, of which plans may use so many nodes and devices. Of several groups all are kept: the plan says which come first.
/// Throws BadInput like with_nodes.
[[nodiscard]] Platform with_limits(const Platform&, std::optional<std::int64_t> nodes, std::optional<std::int64_t> devices);

}  // namespace rehearsal::platforms
