#include "platforms/device_json.hpp"

#include <array>

namespace rehearsal::platforms {
namespace {

constexpr std::array kArithmetics{std::string_view("f64"),  std::string_view("f32"), std::string_view("tf32"), std::string_view("f16"),
                                  std::string_view("bf16"), std::string_view("fp8"), std::string_view("fp4")};
constexpr Bounds<Hertz> kClocks{Hertz(1e6), Hertz(1e11)};
constexpr std::size_t kMostAliases = 100;

auto read_peaks(ObjectReader reader) {
  decltype(Device::peaks) peaks;
  for (const auto arithmetic : kArithmetics)
    if (reader.has(arithmetic)) peaks.emplace(arithmetic, reader.quantity(arithmetic, kPeaks));
  reader.finish();
  return peaks;
}

void read_arithmetic(ObjectReader& reader, Device& device) {
  device.peaks = read_peaks(reader.object("peaks"));
  if (!device.peak("f32"))
    reader.refuse("peaks", "f32 is missing; every device needs the peak of f32, for example \"f32\": \"19.5 TFLOP/s\"");
  device.matrix_units = reader.texts_or_none("matrix_units", kArithmetics.size());
  for (const auto& arithmetic : device.matrix_units)
    if (!device.peak(arithmetic)) reader.refuse("matrix_units", "names " + arithmetic + ", of which peaks says nothing");
}

}  // namespace

PriceBasis read_price_basis(ObjectReader& owner) {
  PriceBasis basis;
  if (!owner.has("price_basis")) return basis;
  if (!owner.has("price")) owner.refuse("price_basis", "is of a price, which is missing");
  auto reader = owner.object("price_basis");
  basis.term = static_cast<PriceTerm>(reader.choice("term", kPriceTermNames));
  basis.seller = reader.text_or("seller", "");
  basis.date = reader.text_or("date", "");
  reader.finish();
  return basis;
}

Device read_device(ObjectReader reader) {
  Device device;
  device.name = reader.text("name");
  device.aliases = reader.texts_or_none("aliases", kMostAliases);
  device.kind = static_cast<DeviceKind>(reader.choice("kind", kDeviceKindNames));
  device.generation = reader.text_or("generation", "");
  device.compute_units = static_cast<int>(reader.integer("compute_units", 1, 1'000'000));
  device.compute_capability = reader.number_or_none("compute_capability", 1, 100);
  read_arithmetic(reader, device);
  device.clock = reader.quantity_or_none("clock", kClocks);
  device.l2 = reader.quantity_or_none("l2", Bounds<Bytes>{Bytes(1e3), Bytes(1e12)});
  device.memory_type = reader.text_or("memory_type", "");
  device.memory = reader.quantity("memory", kMemory);
  device.memory_bus = reader.number_or_none("memory_bus", 8, 1 << 20);
  device.memory_bandwidth = reader.quantity("memory_bandwidth", kBandwidths);
  device.idle_power = reader.quantity("idle_power", kPowers);
  device.busy_power = reader.quantity("busy_power", kPowers);
  check_powers(reader, device);
  device.launch_overhead = reader.quantity("launch_overhead", kLatencies);
  device.host_bandwidth = reader.quantity_or_none("host_bandwidth", kBandwidths);
  device.link_bandwidth = reader.quantity_or_none("link_bandwidth", kBandwidths);
  device.price = reader.quantity_or_none("price", kPrices);
  device.price_basis = read_price_basis(reader);
  device.time_between_failures = reader.quantity_or_none("time_between_failures", Bounds<Seconds>{Seconds(60), Seconds(999'999 * 86400.0)});
  reader.finish();
  return device;
}

}  // namespace rehearsal::platforms
