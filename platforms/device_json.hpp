#pragma once
// One device as JSON, as it stands in a platform's file or in the catalogue, and what is plausible of any part.

#include "platforms/object_reader.hpp"

namespace rehearsal::platforms {

// What is plausible: generous to machines of the next decades, tight enough to catch a wrong prefix.
inline constexpr Bounds<FlopsPerSecond> kPeaks{FlopsPerSecond(1e6), FlopsPerSecond(1e18)};
inline constexpr Bounds<Bytes> kMemory{Bytes(1e6), Bytes(1e15)};
inline constexpr Bounds<BytesPerSecond> kBandwidths{BytesPerSecond(1e3), BytesPerSecond(1e15)};
inline constexpr Bounds<Seconds> kLatencies{Seconds(0), Seconds(10)};
inline constexpr Bounds<Seconds> kWaits{Seconds(0), Seconds(1e8)};
inline constexpr Bounds<Watts> kPowers{Watts(0), Watts(1e6)};
inline constexpr Bounds<DollarsPerHour> kPrices{DollarsPerHour(0), DollarsPerHour(1e6)};
inline constexpr Bounds<KilogramsPerJoule> kCarbon{KilogramsPerJoule(0), KilogramsPerJoule(10 / 3.6e6)};
inline constexpr Bounds<DollarsPerJoule> kElectricityPrices{DollarsPerJoule(0), DollarsPerJoule(100 / 3.6e6)};

template <class Part>
void check_powers(const ObjectReader& reader, const Part& part) {
  if (*part.idle_power > *part.busy_power) reader.refuse("idle_power", "is larger than busy_power");
}

/// Of the price in the same object; yours where nothing is said.
[[nodiscard]] PriceBasis read_price_basis(ObjectReader& owner);

/// Throws BadInput naming the key and what would be right.
[[nodiscard]] Device read_device(ObjectReader reader);

}  // namespace rehearsal::platforms
