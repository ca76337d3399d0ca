#include "validation/record_machine.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>

#include "base/error.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"

namespace rehearsal::validation {
namespace {

using platforms::Device;
using platforms::IntraKind;

constexpr double kMachineGiga = 1e9, kTera = 1e12;
constexpr double kLeastNvlink = 32e9;  // slower links between devices are PCI Express
constexpr double kPcieShare = 0.78;    // of a slot that copies between cards reach

bool near_memory(const Device& d, double gibibytes) {
  constexpr double kGibi = 1024.0 * 1024.0 * 1024.0, kNear = 0.15;
  return std::fabs(d.memory.value.value() / (gibibytes * kGibi) - 1) < kNear;
}

struct UsualForm {
  const char* words;
  int gigabytes;
};
constexpr UsualForm kUsualForms[] = {{"sxm2 ", 16}, {"sxm4 ", 80}, {"sxm5 ", 80}, {"", 16},
                                     {"", 32},      {"", 80},      {"pcie ", 16}, {"core ", 16}};

/// The variant of a device that has the memory which the record states.
const Device* variant_with(const std::string& text, const Device& device, std::optional<double> memory) {
  const auto has = [&](const Device& d) { return near_memory(d, *memory); };
  if (!memory || *memory <= 0 || has(device)) return &device;
  const auto* other = platforms::find_device(text + " " + std::to_string(static_cast<int>(std::lround(*memory))) + "gb");
  return other != nullptr && has(*other) ? other : &device;
}

/// The form of a device whose power is the stated one: boards in PCI Express slots draw less than modules, at a lower clock.
const Device* form_with(const std::string& text, const Device* device, std::optional<double> watts) {
  constexpr double kNear = 0.1;
  const auto draws = [&](const Device& d) { return std::fabs(d.busy_power.value.value() / *watts - 1) < kNear; };
  if (!watts || *watts <= 0 || draws(*device)) return device;
  for (const char* form : {" pcie", " pcie 16gb", " pcie 32gb", " pcie 40gb", " pcie 80gb"}) {
    const auto* other = platforms::find_device(text + form);
    if (other != nullptr && draws(*other) && other->memory.value.value() == device->memory.value.value()) return other;
  }
  return device;
}

std::optional<Device> catalogue_device(const Fields& h) {
  const auto text = h.text("gpu").empty() ? h.text("device") : h.text("gpu");
  const auto memory = h.number("mem_GiB");
  const auto* found = platforms::find_device(text);
  if (found != nullptr) found = variant_with(text, *found, memory);
  if (found == nullptr && memory) found = platforms::find_device(text + " " + std::to_string(static_cast<int>(*memory)) + "gb");
  // "V100" alone: the form that most clusters have.
  for (const auto& form : kUsualForms) {
    const auto* other =
        found == nullptr ? platforms::find_device(text + " " + form.words + std::to_string(form.gigabytes) + "gb") : nullptr;
    // Digits that meet make other names: "MI50" with "80gb" behind it is no RTX 5080.
    if (other != nullptr && near_memory(*other, form.gigabytes)) found = other;
  }
  if (found == nullptr) return std::nullopt;
  return *form_with(text, found, h.number("tdp_W"));
}

/// A device known by its peaks alone. Ratios between its figures are those of its contemporaries.
Device described_device(const Record& r) {
  const auto& h = r.hardware;
  Device d;
  d.name = h.text("gpu");
  const double half = h.number("peak_tflops_16bit").value_or(h.number_or("peak_tflops_fp16", 0)) * kTera;
  const double single = h.number_or("peak_tflops_fp32", half / 8 / kTera) * kTera;
  if (half <= 0 && single <= 0)
    throw Refusal("hardware.gpu: '" + d.name + "' is not in the catalogue, and neither peak_tflops_16bit nor peak_tflops_fp32 is given");
  d.compute_units = 100;
  d.peaks["f32"] = FlopsPerSecond(single);
  if (half > 0) {
    d.peaks["f16"] = d.peaks["bf16"] = FlopsPerSecond(half);
    d.peaks["tf32"] = FlopsPerSecond(half / 2);
    d.matrix_units = {"f16", "bf16", "tf32"};
  }
  for (const auto& [key, peak] : {std::pair{"peak_tflops_fp8", "fp8"}, {"peak_tflops_fp4", "fp4"}})
    if (h.number(key)) {
      d.peaks[peak] = FlopsPerSecond(*h.number(key) * kTera);
      d.matrix_units.emplace_back(peak);
    }
  d.memory_bandwidth = BytesPerSecond(half > 0 ? half / 180 : single / 17);
  d.memory = Bytes(40.0 * (1 << 30));
  d.idle_power = Watts(40);
  d.busy_power = Watts(350);
  d.generation = "unknown";
  return d;
}

/// The number under a key, refused where no device has it.
std::optional<double> plausible(const Fields& h, const char* key, double low, double high) {
  const auto value = h.number(key);
  if (value && !(*value >= low && *value <= high))
    throw Refusal(std::string("hardware.") + key + ": is " + h.text(key) + ", which no device has");
  return value;
}

void put_over(Device& d, const Fields& h) {
  if (const auto v = plausible(h, "mem_bw_TBps", 1e-3, 1e3)) d.memory_bandwidth = BytesPerSecond(*v * kTera);
  if (const auto v = plausible(h, "mem_GiB", 0.5, 1e4)) d.memory = Bytes(*v * (1 << 30));
  if (const auto v = plausible(h, "tdp_W", 10, 1e5)) d.busy_power = Watts(*v);
}

/// "8x IB HDR 200", "InfiniBand EDR 100 Gb/s": generation names of one port, bytes per second.
struct PortRow {
  const char* name;
  double rate;
};
constexpr PortRow kPorts[] = {{"fdr", 6.8e9}, {"edr", 12.5e9}, {"hdr", 25e9}, {"ndr", 50e9}, {"xdr", 100e9}};

std::optional<double> card_share_in(const std::string& text, int per_node) {
  static const std::regex kInfiniband(R"((\d+) ?x ?[a-z0-9\- ]*?(fdr|edr|hdr|ndr|xdr)\b(?: per (\d+) gpus?)?)");
  static const std::regex kPerDevice(R"((\d+) ?gb/s per gpu)"), kPerNode(R"((\d+) ?gb/s per node)"), kCards(R"((\d+) ?x ?(\d+) ?gb)");
  static const std::regex kEthernet(R"((\d+(?:\.\d+)?) ?gb?(?:/s|it)?[^,;]*(?:ethernet|roce)|ethernet\D*(\d+) ?gb)");
  std::smatch m;
  // Cards for storage and management carry no gradients.
  const auto compute = text.find("compute:");
  const std::string compute_text = compute == std::string::npos ? text : text.substr(compute);
  if (std::regex_search(compute_text, m, kInfiniband)) {
    const auto* port = std::find_if(std::begin(kPorts), std::end(kPorts), [&](const auto& p) { return m[2].str() == p.name; });
    return std::stod(m[1]) * port->rate / (m[3].matched ? std::stod(m[3]) : per_node);
  }
  if (std::regex_search(text, m, kPerDevice)) return std::stod(m[1]) / 8 * kMachineGiga;
  if (std::regex_search(text, m, kPerNode)) return std::stod(m[1]) / 8 * kMachineGiga / per_node;
  if (std::regex_search(compute_text, m, kCards)) return std::stod(m[1]) * std::stod(m[2]) / 8 * kMachineGiga / per_node;
  if (!holds(text, "nfini") && std::regex_search(text, m, kEthernet)) {
    const double gigabits = std::stod(m[1].matched ? m[1] : m[2]);
    return gigabits / 8 * kMachineGiga / per_node;
  }
  return std::nullopt;
}

/// What clusters of a generation usually have per device, bytes per second.
double usual_card_share(std::string_view generation) {
  struct Row {
    std::string_view generation;
    double share;
  };
  constexpr Row kUsual[] = {{"volta", 6.25e9},   {"ampere", 25e9},           {"hopper", 50e9},
                            {"blackwell", 50e9}, {"blackwell-ultra", 100e9}, {"ada", 6.25e9}};
  for (const auto& row : kUsual)
    if (row.generation == generation) return row.share;
  return 3.1e9;
}

platforms::IntraLink cube_of(const Device& d) {
  return platforms::load(d.generation == "volta" ? "dgx1-v100" : "dgx1-p100").nodes.front().intra;
}

platforms::IntraLink full_mesh(int devices, double port) {
  platforms::IntraLink link;
  link.kind = IntraKind::NvlinkMesh;
  link.bandwidth = BytesPerSecond(port / (devices - 1));
  for (int a = 0; a < devices; ++a)
    for (int b = a + 1; b < devices; ++b) link.wires.push_back({a, b, 1});
  return link;
}

bool is_tpu(const Device& d) { return d.name.starts_with("TPU"); }

platforms::IntraLink intra_of(const Record& r, const Device& d, int per_node) {
  const auto& h = r.hardware;
  const std::string text = h.text("network") + " " + h.text("intra_topology");
  const auto stated = plausible(h, "intra_bw_GBps", 1e-2, 1e5);
  const double own = d.link_bandwidth ? d.link_bandwidth->value.value() : 0;
  const double port = stated ? *stated * kMachineGiga : own;
  const bool pcie =
      holds(h.text("gpu"), "pcie") || holds(h.text("intra_topology"), "pcie") || holds(h.text("gpu"), "no nvlink") || port < kLeastNvlink;
  platforms::IntraLink link;
  if (pcie) {
    const double slot = d.host_bandwidth ? d.host_bandwidth->value.value() : 12e9;
    link.kind = IntraKind::Pcie;
    link.bandwidth = BytesPerSecond(stated ? *stated * kMachineGiga : slot * kPcieShare);
    return link;
  }
  const bool switched = holds(text, "switch");
  if (holds(text, "cube") || (!switched && per_node == 8 && d.generation == "volta") ||
      (!switched && per_node == 8 && d.generation == "pascal"))
    return cube_of(d);
  if (!switched && per_node == 4 && !d.generation.starts_with("blackwell") && !is_tpu(d)) return full_mesh(per_node, port);
  link.kind = IntraKind::Nvswitch;
  link.bandwidth = BytesPerSecond(port);
  return link;
}

/// Devices that share one fabric of links: what collectives call a node. TPUs of a slice are joined chip by chip, past their hosts.
int fabric_size(const Device& d, int per_node, int devices, std::optional<double> domain) {
  constexpr int kRack = 72, kLargest = 1024;  // GB200 and GB300 NVL72
  if (domain && *domain >= per_node && *domain <= kLargest) return static_cast<int>(*domain);
  if (is_tpu(d)) return std::max(per_node, devices);
  return d.name.starts_with("GB200") || d.name.starts_with("GB300") ? kRack : per_node;
}

constexpr Seconds kSwitchLatency{130e-9};

void set_cards(RecordMachine& machine, const Record& r, int per_node) {
  auto& node = machine.platform.nodes.front();
  const std::string text = r.hardware.text("network") + " " + r.hardware.text("intra_topology");
  auto share = plausible(r.hardware, "inter_bw_GBps_per_gpu", 1e-3, 1e4);
  if (share)
    *share *= kMachineGiga;
  else
    share = card_share_in(text, per_node);
  machine.network_known = share.has_value() || machine.devices <= node.devices;
  const bool ethernet =
      (holds(text, "ethernet") || holds(text, "roce")) && !holds(text, "nfini") && !holds(text, " ib ") && !holds(text, "compute:");
  node.nic.count = node.devices;
  node.nic.kind = ethernet ? platforms::NicKind::Ethernet : platforms::NicKind::Rdma;
  node.nic.bandwidth = {BytesPerSecond(std::max(5e7, share.value_or(usual_card_share(node.device.generation)))),
                        "the record, or what is usual"};
  // One switch for all nodes: publications describe networks without oversubscription, and constants hold what theirs lose.
  auto& topology = machine.platform.topology;
  topology.kind = "fat-tree";
  topology.parameters = {{"arity", {std::max(2, node.count)}}, {"levels", {1}}, {"oversubscription", {1}}};
  topology.bandwidth = {node.nic.bandwidth.value * node.nic.count, "as its cards"};
  topology.latency = {kSwitchLatency, "NVIDIA Quantum QM8700 product brief: 130 ns port to port"};
}

/// A platform of the catalogue or a file, of which the job has the first devices.
RecordMachine named_machine(const Record& r) {
  const auto& h = r.hardware;
  const auto count = h.number_or("count", 0);
  if (count < 1 || count > 1e7 || count != std::floor(count)) throw Refusal("hardware.count: must be a whole number from 1 to 10000000");
  RecordMachine machine;
  machine.devices = static_cast<int>(count);
  try {
    machine.platform = platforms::with_devices(platforms::load(h.written("platform")), machine.devices);
  } catch (const BadInput& error) {
    throw Refusal(std::string("hardware.platform: ") + error.what());
  }
  if (machine.platform.nodes.size() > 1)
    throw Refusal("hardware.platform: '" + h.written("platform") + "' has several kinds of nodes, and records are of one");
  machine.power_limit = h.number_or("power_limit_W", 0);
  return machine;
}

}  // namespace

RecordMachine machine_of(const Record& r) {
  const auto& h = r.hardware;
  if (h.has("platform")) return named_machine(r);
  if (h.text("gpu").empty() && h.text("device").empty()) throw Refusal("hardware.gpu: is missing");
  RecordMachine machine;
  auto device = catalogue_device(h);
  machine.device_known = device.has_value();
  if (!device) device = described_device(r);
  put_over(*device, h);
  double degrees = 1;
  for (const char* key : {"dp", "tp", "pp", "cp"}) degrees *= std::max(1.0, r.plan.number_or(key, 1));
  const double count = h.number_or("count", r.plan.number_or("ranks", degrees));
  if (count < 1 || count > 1e7 || count != std::floor(count)) throw Refusal("hardware.count: must be a whole number from 1 to 10000000");
  machine.devices = static_cast<int>(count);
  const double stated = h.number_or("gpus_per_node", 8);
  if (stated < 1 || stated != std::floor(stated)) throw Refusal("hardware.gpus_per_node: must be a whole number from 1 up");
  const auto per_node = static_cast<int>(std::min(stated, 1024.0));
  platforms::NodeGroup node;
  node.device = *device;
  node.devices = fabric_size(*device, per_node, machine.devices, h.number("nvlink_domain"));
  node.intra = intra_of(r, *device, per_node);
  node.count = (machine.devices + node.devices - 1) / node.devices;
  machine.platform.name = h.text("gpu");
  machine.platform.nodes.push_back(std::move(node));
  set_cards(machine, r, per_node);
  machine.power_limit = h.number("power_limit_W").value_or(h.number_or("power_cap_W", 0));
  return machine;
}

}  // namespace rehearsal::validation
