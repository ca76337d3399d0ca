#include "exec/kernels/cuda/device_properties.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"

namespace rehearsal::exec::cuda {
namespace {

constexpr std::int64_t kKibi = 1024;

/// What compute capabilities differ in: of a multiprocessor, and shared memory in bytes.
struct CapabilityRow {
  int capability;  ///< 75: 7.5
  int blocks, threads;
  std::int64_t most_shared;  ///< of a block that asks for it
  std::int64_t reserved;     ///< of every block, by the system
};
constexpr std::array kCapabilities{
    CapabilityRow{70, 32, 2048, 96 * kKibi, 0},       CapabilityRow{75, 16, 1024, 64 * kKibi, 0},
    CapabilityRow{80, 32, 2048, 163 * kKibi, kKibi},  CapabilityRow{86, 16, 1536, 99 * kKibi, kKibi},
    CapabilityRow{89, 24, 1536, 99 * kKibi, kKibi},   CapabilityRow{90, 32, 2048, 227 * kKibi, kKibi},
    CapabilityRow{100, 32, 2048, 227 * kKibi, kKibi}, CapabilityRow{103, 32, 2048, 227 * kKibi, kKibi},
    CapabilityRow{120, 24, 1536, 99 * kKibi, kKibi},
};

std::string text_of_capability(int capability) { return std::to_string(capability / 10) + "." + std::to_string(capability % 10); }

const CapabilityRow& capability_of(const platforms::Device& device) {
  if (!device.compute_capability)
    throw Refusal("--device " + device.name + ": no NVIDIA GPU of a known compute capability; cuDNN plans for those that have one (" +
                  joined(kCapabilities, ", ", [](const auto& row) { return text_of_capability(row.capability); }) + ")");
  const int wanted = static_cast<int>(std::lround(device.compute_capability->value * 10));
  const auto* row = std::ranges::find(kCapabilities, wanted, &CapabilityRow::capability);
  if (row == kCapabilities.end())
    throw Refusal("--device " + device.name + ": nothing is known of compute capability " + text_of_capability(wanted) + "; known are " +
                  joined(kCapabilities, ", ", [](const auto& known) { return text_of_capability(known.capability); }));
  return *row;
}

template <class T>
T known(const platforms::Device& device, const std::optional<platforms::Sourced<T>>& figure, const char* key) {
  if (figure) return figure->value;
  throw Refusal("--device " + device.name + ": " + key + " is not known, which cuDNN wants to know; add it to platforms/catalog/devices/" +
                device.name + ".json");
}

}  // namespace

std::string device_properties(const platforms::Device& device) {
  const auto& row = capability_of(device);
  constexpr int kThreadsOfBlock = 1024, kRegisters = 65536, kWarp = 32, kCuda = 13000;
  constexpr std::int64_t kMostBlocks = 2147483647, kMostBlocksAcross = 65535;
  // Memory of every kind that GPUs have moves two bits a clock through a pin, as the runtime counts clocks.
  const double memory_clock = (*device.memory_bandwidth).value() * 8 / known(device, device.memory_bus, "memory_bus") / 2;
  const auto whole = [](double value) { return static_cast<std::int64_t>(std::llround(value)); };
  return nlohmann::json{
      {"deviceVer", row.capability * 10},
      {"multiProcessorCount", device.compute_units},
      {"warpSize", kWarp},
      {"maxSharedMemoryPerBlock", 48 * kKibi},
      {"maxSharedMemoryPerBlockOptin", row.most_shared},
      {"oversizedSharedMemoryPerBlock", 0},
      {"reservedSharedMemoryPerBlock", row.reserved},
      {"maxRegistersPerSM", kRegisters},
      {"maxCtasPerSM", row.blocks},
      {"maxThreadsPerBlock", kThreadsOfBlock},
      {"maxThreadsPerSM", row.threads},
      {"regsPerBlock", kRegisters},
      {"totalGlobalMem", whole((*device.memory).value())},
      {"smClockRateKHz", whole(known(device, device.clock, "clock").value() / 1e3)},
      {"l2CacheSize", whole(known(device, device.l2, "l2").value())},
      {"maxBlockSize", {kThreadsOfBlock, kThreadsOfBlock, 64}},
      {"memClockRateKHz", whole(memory_clock / 1e3)},
      {"maxGridSize", {kMostBlocks, kMostBlocksAcross, kMostBlocksAcross}},
      {"supportCoopLaunch", 1},
      {"pciDeviceId", 0},
      {"isTccDriver", 0},
      {"cudaDeviceId", 0},
      {"driverVer", kCuda},
      {"deviceName", device.name},
  }
      .dump();
}

}  // namespace rehearsal::exec::cuda
