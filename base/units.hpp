#pragma once
// Physical quantities as types: a number cannot lose its unit between rooms.
// Values are stored in SI base units (seconds, bytes, FLOP, watts, joules, US dollars).

#include <compare>
#include <cstdint>
#include <string>

namespace rehearsal {

/// A double with a unit. Same-unit arithmetic and scaling only; conversions between
/// units exist exactly where physics has them (see the operators below the aliases).
template <class Unit>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }
  constexpr Quantity& operator*=(double factor) { return *this = *this * factor; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.value_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Quantity a, Quantity b) = default;

 private:
  double value_ = 0.0;
};

using Seconds = Quantity<struct SecondsUnit>;
using Flops = Quantity<struct FlopsUnit>;  ///< floating-point operations (a multiply-add is two)
using Bytes = Quantity<struct BytesUnit>;  ///< exact below 2^53
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit>;
using BytesPerSecond = Quantity<struct BytesPerSecondUnit>;
using Watts = Quantity<struct WattsUnit>;
using Joules = Quantity<struct JoulesUnit>;
using Dollars = Quantity<struct DollarsUnit>;
using DollarsPerHour = Quantity<struct DollarsPerHourUnit>;
using Kilograms = Quantity<struct KilogramsUnit>;
using KilogramsPerJoule = Quantity<struct KilogramsPerJouleUnit>;  ///< carbon intensity of electricity
using DollarsPerJoule = Quantity<struct DollarsPerJouleUnit>;      ///< price of electricity
using Hertz = Quantity<struct HertzUnit>;

constexpr Seconds operator/(Flops work, FlopsPerSecond rate) { return Seconds(work.value() / rate.value()); }
constexpr Seconds operator/(Bytes size, BytesPerSecond rate) { return Seconds(size.value() / rate.value()); }
constexpr FlopsPerSecond operator/(Flops work, Seconds time) { return FlopsPerSecond(work.value() / time.value()); }
constexpr BytesPerSecond operator/(Bytes size, Seconds time) { return BytesPerSecond(size.value() / time.value()); }
constexpr Joules operator*(Watts power, Seconds time) { return Joules(power.value() * time.value()); }
constexpr Dollars operator*(DollarsPerHour price, Seconds time) { return Dollars(price.value() * time.value() / 3600.0); }

constexpr Kilograms operator*(KilogramsPerJoule intensity, Joules energy) { return Kilograms(intensity.value() * energy.value()); }
constexpr Dollars operator*(DollarsPerJoule price, Joules energy) { return Dollars(price.value() * energy.value()); }

/// Human-readable, three significant digits, with the unit that suits the size: "1.25 ms", "24.5 GB".
[[nodiscard]] std::string to_text(Seconds);
[[nodiscard]] std::string to_text(Bytes);
[[nodiscard]] std::string to_text(Flops);
[[nodiscard]] std::string to_text(FlopsPerSecond);
[[nodiscard]] std::string to_text(BytesPerSecond);
[[nodiscard]] std::string to_text(Watts);
[[nodiscard]] std::string to_text(Joules);
[[nodiscard]] std::string to_text(Dollars);

/// The shortest text, without an exponent where one unit allows, that parse_quantity reads back as exactly this value: "25 GB/s", "1.5 us".
template <class Unit>
[[nodiscard]] std::string to_exact_text(Quantity<Unit>);

/// Parses "25 GB/s", "1.5 us", "400 W", "80 GiB", "2.5 $/h", "312 TFLOP/s", "2.4 GHz",
/// "0.35 kg/kWh", "0.12 $/kWh".
/// Throws BadInput naming the accepted units when the text has no number, no unit, another
/// unit, or a value that is not finite. Signs are accepted here: a reader decides what may be negative.
template <class Q>
[[nodiscard]] Q parse_quantity(const std::string& text);

}  // namespace rehearsal
