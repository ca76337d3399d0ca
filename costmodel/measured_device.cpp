#include "costmodel/measured_device.hpp"

#include <algorithm>

#include "platforms/devices.hpp"

namespace rehearsal::costmodel {
namespace {

/// "NVIDIA H200 (cuda:0)" without which of them it is.
std::string without_place(const std::string& gpu) { return gpu.substr(0, gpu.find(" (cuda:")); }

/// The device of the catalogue that a name means, of that kind.
const platforms::Device* in_catalogue(const std::string& name, platforms::DeviceKind kind) {
  const auto* found = platforms::find_device(name);
  return found != nullptr && found->kind == kind ? found : nullptr;
}

/// Whether they compute and move equally much, whatever they are called, hold and are linked by.
bool equally_quick(const platforms::Device& a, const platforms::Device& b) {
  const auto equal = [](const auto& x, const auto& y) { return x.first == y.first && *x.second == *y.second; };
  const auto value = [](const auto& figure) { return figure ? std::optional(**figure) : std::nullopt; };
  return a.compute_units == b.compute_units && value(a.clock) == value(b.clock) && value(a.l2) == value(b.l2) &&
         *a.memory_bandwidth == *b.memory_bandwidth && std::ranges::equal(a.peaks, b.peaks, equal);
}

bool same_make(const DeviceIdentity& a, const DeviceIdentity& b) {
  if (a.name == b.name) return true;
  const auto *known = in_catalogue(a.name, *a.kind), *other = in_catalogue(b.name, *b.kind);
  return known != nullptr && other != nullptr && (known == other || equally_quick(*known, *other));
}

}  // namespace

std::string DeviceIdentity::text() const {
  if (!name.empty()) return name;
  if (!kind) return "a device that is not named";
  return *kind == platforms::DeviceKind::Cpu ? "a processor" : *kind == platforms::DeviceKind::Gpu ? "a GPU" : "an accelerator";
}

DeviceIdentity identity_of(const MachineContext& context) {
  // Measurements of a GPU name its host's processor, too.
  if (const auto gpu = without_place(context.item(kGpuItem)); !gpu.empty()) return {platforms::DeviceKind::Gpu, gpu};
  if (const auto cpu = context.item(kCpuItem); !cpu.empty()) return {platforms::DeviceKind::Cpu, cpu};
  return {};
}

DeviceIdentity identity_of(const platforms::Device& device) {
  return {device.kind, in_catalogue(device.name, device.kind) == nullptr ? std::string() : device.name};
}

Likeness likeness(const DeviceIdentity& a, const DeviceIdentity& b) {
  if (!a.kind || !b.kind) return Likeness::NotSaid;
  if (*a.kind != *b.kind) return Likeness::Foreign;
  if (a.name.empty() || b.name.empty()) return Likeness::NotSaid;
  if (same_make(a, b)) return Likeness::Same;
  return *a.kind == platforms::DeviceKind::Cpu ? Likeness::Akin : Likeness::Foreign;
}

}  // namespace rehearsal::costmodel
