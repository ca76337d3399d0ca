#include "exec/bench/bench_machine.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "base/cpu_time.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/comm/usable_cores.hpp"
#include "exec/host/fast.hpp"
#include "exec/kernels/native/loops.hpp"

namespace rehearsal::exec::bench {
namespace {

/// Least thread CPU seconds of `work` over bursts within `seconds` of wall time.
template <class Work>
double least(double seconds, const Work& work) {
  const double end = now_seconds() + seconds;
  double best = 1e300;
  do {
    const double begin = thread_seconds();
    work();
    best = std::min(best, thread_seconds() - begin);
  } while (now_seconds() < end);
  return best;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value after "key : " in /proc/cpuinfo or /proc/meminfo.
std::string proc_value(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find_first_not_of(" \t", line.find(':') + 1);
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

std::string caches() {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + '/';
    const auto size = first_line(folder + "size"), type = first_line(folder + "type");
    if (size.empty() || type == "Instruction") continue;
    text += (text.empty() ? "L" : ", L") + first_line(folder + "level") + ' ' + size;
  }
  return text;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

constexpr double kBusyWattsOfCore = 10, kIdleWattsOfCore = 3;
constexpr const char* kEstimate = "estimate: not measured on this machine";
constexpr int kUsualPorts = 48;  // of a switch; those of the one here cannot be seen

std::string measured_by(MeasuringRanks ranks, int cores) {
  const std::string busy = ranks.of_node >= cores ? "all cores busy" : std::to_string(ranks.of_node) + " cores of a node busy";
  return "measured by rehearse calibrate, " + busy;
}

platforms::Device device_of(const CoreLimits& limits, Bytes memory, const std::string& measured) {
  platforms::Device d;
  d.name = "core";
  d.kind = platforms::DeviceKind::Cpu;
  d.generation = "x86";
  d.peaks["f32"] = {limits.f32, measured + ": independent multiply-adds"};
  d.peaks["f64"] = {limits.f64, measured + ": independent multiply-adds"};
  for (const auto& [type, rate] : {std::pair(DType::BF16, limits.bf16), std::pair(DType::F16, limits.f16)})
    if (rate.value() > 0) d.peaks[std::string(name(type))] = {rate, measured + ": a product of large matrices"};
  d.memory = {memory, "/proc/meminfo divided by the cores"};
  d.memory_bandwidth = {limits.memory, measured + ": a += b beyond the last-level cache"};
  d.idle_power = {Watts(kIdleWattsOfCore), kEstimate};
  d.busy_power = {Watts(kBusyWattsOfCore), kEstimate};
  d.launch_overhead = {Seconds(1e-6), kEstimate};
  return d;
}

void join_nodes(platforms::Platform& p, platforms::NodeGroup& node, const costmodel::LinkFit& link) {
  const std::string measured = "measured by rehearse calibrate: messages between ";
  node.nic.count = 1;
  node.nic.bandwidth = {link.bandwidth, measured + "one rank and one of the next node"};
  node.nic.latency = {link.latency / 2.0, "half of what is " + measured + "two nodes"};
  p.topology.kind = "switch";
  p.topology.parameters["ports"] = {std::max(kUsualPorts, node.count)};
  p.topology.latency = {Seconds(0), "within the cards' figures"};
  p.description += "; " + std::to_string(node.count) + " nodes";
}

}  // namespace

CoreLimits measure_core(double seconds) {
  constexpr std::int64_t kRounds = 200000, kElements = 12 << 20, kCached = 32 << 10;
  const auto& l = native::loops();
  double sink = 0;
  const double flops = 2.0 * kRounds * native::kMultiplyAdds * l.multiply_add_bytes;  // divided by the size of an element
  const double single = least(seconds / 4, [&] { sink += l.multiply_add_f32(kRounds); });
  const double wide = least(seconds / 4, [&] { sink += l.multiply_add_f64(kRounds); });
  std::vector<float> a(kElements, 1.0F), b(kElements, 0.5F);
  const double stream = least(seconds / 4, [&] { l.f32.add(a.data(), b.data(), kElements); });
  const double cached = least(seconds / 4, [&] {
    for (int i = 0; i < 16; ++i) l.f32.add(a.data(), b.data(), kCached);
  });
  if (sink == 0) return {};  // never: keeps the sums alive
  return {FlopsPerSecond(flops / 4 / single),
          FlopsPerSecond(flops / 8 / wide),
          BytesPerSecond(12.0 * kElements / stream),
          BytesPerSecond(16.0 * 4 * kCached / cached),
          FlopsPerSecond(0),
          FlopsPerSecond(0)};
}

std::string processor_name() { return proc_value("/proc/cpuinfo", "model name"); }

costmodel::MachineContext describe_machine() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  costmodel::MachineContext c;
  c.items["host"] = host;
  c.items[std::string(costmodel::kCpuItem)] = processor_name();
  c.items["cores"] = std::to_string(cores_of_node());
  c.items["caches"] = caches();
  c.items["memory"] = proc_value("/proc/meminfo", "MemTotal");
  c.items["load"] = first_line("/proc/loadavg");
  c.items["date"] = now_text();
  c.items["build"] = "release";
  c.items["libraries"] = kernel_libraries();
  return c;
}

costmodel::KernelHome kernel_home() { return {processor_name(), kernel_instructions(), kernel_libraries()}; }

Bytes memory_to_measure_in() {
  return Bytes(0.25 * static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE)));
}

platforms::Platform platform_of(const CoreLimits& limits, const costmodel::Calibration& calibration, MeasuringRanks ranks) {
  const auto cores = cores_of_node();
  const double memory = 1024.0 * std::stod("0" + proc_value("/proc/meminfo", "MemTotal"));
  const std::string measured = measured_by(ranks, cores);
  platforms::NodeGroup node;
  node.name = ranks.nodes > 1 ? "node" : "this machine";
  node.count = ranks.nodes;
  node.devices = cores;
  node.device = device_of(limits, Bytes(memory / cores), measured);
  node.intra.kind = platforms::IntraKind::SharedMemory;
  const auto& link = calibration.link;
  const std::string between = ranks.of_node > 1 ? measured + ": messages between two ranks" : "estimate: one rank alone was on a node";
  node.intra.bandwidth = {link.bandwidth, between};
  node.intra.latency = {link.latency, between};
  node.host_cores = cores;
  node.host_memory = {Bytes(memory), "/proc/meminfo"};
  node.host_power = {Watts(0), "within the cores' figures"};
  node.price = {DollarsPerHour(0), "the user's own machine"};
  platforms::Platform p;
  p.name = "here";
  p.description = proc_value("/proc/cpuinfo", "model name") + ", one device per physical core";
  if (calibration.node_link) join_nodes(p, node, *calibration.node_link);
  p.nodes.push_back(std::move(node));
  p.carbon_intensity = {KilogramsPerJoule(0.4 / 3.6e6), "estimate: 0.4 kg/kWh"};
  p.electricity_price = {DollarsPerJoule(0.15 / 3.6e6), "estimate: 0.15 $/kWh"};
  return p;
}

}  // namespace rehearsal::exec::bench
