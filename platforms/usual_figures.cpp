#include "platforms/usual_figures.hpp"

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "base/units.hpp"
#include "platforms/devices.hpp"
#include "platforms/settings.hpp"

namespace rehearsal::platforms {
namespace {

template <typename Quantity>
double value_of(const std::string& text) {
  return parse_quantity<Quantity>(text).value();
}

/// From a processor of a notebook to a rack of next year, with room on both sides.
struct Usual {
  std::string_view figure;  ///< as setting_names() has it; one that ends in a dot: all that begin so
  double (*value)(const std::string&);
  const char *least, *most;
};
constexpr std::array kUsual{Usual{"device.peaks.", value_of<FlopsPerSecond>, "1 GFLOP/s", "100 PFLOP/s"},
                            Usual{"device.memory", value_of<Bytes>, "1 GB", "4 TB"},
                            Usual{"device.memory_bandwidth", value_of<BytesPerSecond>, "5 GB/s", "50 TB/s"},
                            Usual{"device.host_bandwidth", value_of<BytesPerSecond>, "1 GB/s", "2 TB/s"},
                            Usual{"device.link_bandwidth", value_of<BytesPerSecond>, "1 GB/s", "5 TB/s"},
                            Usual{"device.clock", value_of<Hertz>, "200 MHz", "6 GHz"},
                            Usual{"device.busy_power", value_of<Watts>, "1 W", "5 kW"},
                            Usual{"device.idle_power", value_of<Watts>, "0 W", "1 kW"},
                            Usual{"device.launch_overhead", value_of<Seconds>, "10 ns", "1 ms"},
                            Usual{"device.price", value_of<DollarsPerHour>, "0 $/h", "100 $/h"},
                            Usual{"link.bandwidth", value_of<BytesPerSecond>, "1 GB/s", "5 TB/s"},
                            Usual{"link.total_bandwidth", value_of<BytesPerSecond>, "1 GB/s", "500 TB/s"},
                            Usual{"link.latency", value_of<Seconds>, "10 ns", "10 ms"},
                            Usual{"nic.bandwidth", value_of<BytesPerSecond>, "100 MB/s", "2 TB/s"},
                            Usual{"nic.latency", value_of<Seconds>, "100 ns", "100 ms"},
                            Usual{"topology.bandwidth", value_of<BytesPerSecond>, "100 MB/s", "2 TB/s"},
                            Usual{"topology.latency", value_of<Seconds>, "10 ns", "100 ms"},
                            Usual{"node.host_memory", value_of<Bytes>, "4 GB", "100 TB"},
                            Usual{"node.host_memory_bandwidth", value_of<BytesPerSecond>, "5 GB/s", "100 TB/s"},
                            Usual{"node.host_power", value_of<Watts>, "0 W", "100 kW"},
                            Usual{"node.storage_bandwidth", value_of<BytesPerSecond>, "1 MB/s", "1 TB/s"},
                            Usual{"node.price", value_of<DollarsPerHour>, "0 $/h", "2000 $/h"}};

const Usual* usual(std::string_view figure) {
  const auto* found = std::ranges::find_if(
      kUsual, [&](const Usual& row) { return row.figure.ends_with('.') ? figure.starts_with(row.figure) : figure == row.figure; });
  return found == kUsual.end() ? nullptr : found;
}

/// What all devices of a node share must be enough for one of them.
void add_narrow_totals(const Platform& platform, std::vector<std::string>& sentences) {
  for (const auto& group : platform.nodes) {
    const auto& total = group.intra.total_bandwidth;
    if (total && total->value < group.intra.bandwidth.value)
      sentences.push_back("link.total_bandwidth: " + to_exact_text(total->value) + " for all devices of a node is less than the " +
                          to_exact_text(group.intra.bandwidth.value) + " of link.bandwidth, which no device then reaches");
  }
}

/// A node reads no quicker because others read as well.
void add_storage_gains(const Platform& platform, std::vector<std::string>& sentences) {
  for (const auto& group : platform.nodes) {
    if (!group.storage || !group.storage->bandwidth || !group.storage->bandwidth_while_all) continue;
    const auto alone = group.storage->bandwidth->value, beside = group.storage->bandwidth_while_all->value;
    if (beside > alone)
      sentences.push_back("node.storage.bandwidth_while_all: " + to_exact_text(beside) + " while others read is more than the " +
                          to_exact_text(alone) + " of node.storage.bandwidth, at which it reads alone");
  }
}

/// Arithmetic of which no machine has less than of the one that is twice as wide.
struct Narrower {
  std::string_view narrow, wide;
};
constexpr std::array kNarrower{Narrower{"f32", "f64"},  Narrower{"bf16", "f32"}, Narrower{"f16", "f32"}, Narrower{"bf16", "tf32"},
                               Narrower{"f16", "tf32"}, Narrower{"fp8", "bf16"}, Narrower{"fp8", "f16"}, Narrower{"fp4", "fp8"}};

/// Processors without units for it widen what is narrow, which takes time.
bool may_be_lower(const Device& device, std::string_view narrow) { return device.kind == DeviceKind::Cpu && narrow != "f32"; }

void add_low_peaks(const Device& device, std::vector<std::string>& sentences) {
  std::string_view named;
  for (const auto& [narrow, wide] : kNarrower) {
    if (narrow == named) continue;
    const auto low = device.peak(narrow), high = device.peak(wide);
    if (!low || !high || *low >= *high || may_be_lower(device, narrow)) continue;
    named = narrow;
    sentences.push_back("device.peaks." + std::string(narrow) + ": " + to_exact_text(*low) + " is less than the " + to_exact_text(*high) +
                        " of " + std::string(wide) + ", whose numbers are twice as wide; nothing would be computed in it");
  }
}

/// What a GPU computes while it reads a byte, and how long it reads all of its memory: a slip of a unit in one of two figures.
void add_odd_ratios(const Device& device, std::vector<std::string>& sentences) {
  constexpr double kLeastFlops = 10, kMostFlops = 2000;      // GPUs of the catalogue: 37 (H20) to 458 (GB10)
  constexpr double kLeastSeconds = 0.003, kMostSeconds = 3;  // and 14 ms (RTX 3080) to 0.46 s (GB10)
  if (device.kind != DeviceKind::Gpu) return;
  const double bandwidth = device.memory_bandwidth.value.value();
  for (const std::string_view key : {"bf16", "f16"}) {
    if (std::ranges::find(device.matrix_units, key) == device.matrix_units.end() || !device.peak(key)) continue;
    const double flops = device.peak(key)->value() / bandwidth;
    if (flops >= kLeastFlops && flops <= kMostFlops) continue;
    sentences.push_back("device.peaks." + std::string(key) + ": " + to_exact_text(*device.peak(key)) + " beside a memory_bandwidth of " +
                        to_exact_text(device.memory_bandwidth.value) + "; one of both has another unit on every GPU with matrix units");
    break;
  }
  const double seconds = device.memory.value.value() / bandwidth;
  if (seconds < kLeastSeconds || seconds > kMostSeconds)
    sentences.push_back("device.memory: " + to_exact_text(device.memory.value) + " beside a memory_bandwidth of " +
                        to_exact_text(device.memory_bandwidth.value) + " is read in " + to_text(Seconds(seconds)) +
                        "; GPUs read theirs in 10 ms to 500 ms");
}

/// Kernels of GPUs are known by generation; one that is misspelt would be taken for a GPU of which nothing is known.
void add_unknown_generation(const Device& device, std::vector<std::string>& sentences) {
  if (device.kind != DeviceKind::Gpu) return;
  const Names known = generation_names();
  if (std::ranges::find(known, device.generation) != known.end()) return;
  const std::string is = device.generation.empty() ? "is not said" : "\"" + device.generation + "\" is that of no device of the catalogue";
  const auto nearest = nearest_name(device.generation, known);
  sentences.push_back("device.generation: " + is + (nearest ? "; did you mean \"" + std::string(*nearest) + "\"?" : ";") +
                      " Kernels are predicted as those of a GPU of which nothing is known");
}

}  // namespace

Sourced<Seconds> restart_time_of(const Platform& platform) {
  return platform.restart_time.value_or(Sourced<Seconds>(
      Seconds(600),
      "Kokolis et al., \"Revisiting Reliability in Large-Scale Machine Learning Research Clusters\" (HPCA 2025): 5 to 20 min"));
}

std::vector<std::string> unusual_figures(const Platform& platform) {
  std::vector<std::string> sentences;
  for (const auto& name : setting_names(platform)) {
    const auto* row = usual(name);
    if (row == nullptr) continue;
    const auto text = setting(platform, name);
    const double value = row->value(text);
    if (value < row->value(row->least) || value > row->value(row->most))
      sentences.push_back(name + ": " + text + "; machines have " + row->least + " to " + row->most);
  }
  add_narrow_totals(platform, sentences);
  add_storage_gains(platform, sentences);
  for (const auto& group : platform.nodes) {
    add_low_peaks(group.device, sentences);
    add_odd_ratios(group.device, sentences);
    add_unknown_generation(group.device, sentences);
  }
  return sentences;
}

}  // namespace rehearsal::platforms
