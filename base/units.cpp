#include "base/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/parse_number.hpp"

namespace rehearsal {
namespace {

struct UnitName {
  std::string_view name;
  double factor;
};

/// Of a text of a quantity.
template <class Q>
constexpr std::array<UnitName, 0> kUnits;
template <>
constexpr std::array kUnits<Seconds>{UnitName{"s", 1.0},   UnitName{"ms", 1e-3}, UnitName{"us", 1e-6}, UnitName{"µs", 1e-6},
                                     UnitName{"ns", 1e-9}, UnitName{"min", 60},  UnitName{"h", 3600},  UnitName{"d", 86400}};
template <>
constexpr std::array kUnits<Bytes>{UnitName{"B", 1.0},        UnitName{"kB", 1e3},          UnitName{"MB", 1e6},
                                   UnitName{"GB", 1e9},       UnitName{"TB", 1e12},         UnitName{"KiB", 1024.0},
                                   UnitName{"MiB", 1048576.}, UnitName{"GiB", 1073741824.}, UnitName{"TiB", 1099511627776.}};
template <>
constexpr std::array kUnits<FlopsPerSecond>{UnitName{"FLOP/s", 1.0}, UnitName{"MFLOP/s", 1e6}, UnitName{"GFLOP/s", 1e9},
                                            UnitName{"TFLOP/s", 1e12}, UnitName{"PFLOP/s", 1e15}};
template <>
constexpr std::array kUnits<BytesPerSecond>{UnitName{"B/s", 1.0},           UnitName{"kB/s", 1e3},     UnitName{"MB/s", 1e6},
                                            UnitName{"GB/s", 1e9},          UnitName{"TB/s", 1e12},    UnitName{"MiB/s", 1048576.},
                                            UnitName{"GiB/s", 1073741824.}, UnitName{"Mbit/s", 125e3}, UnitName{"Gbit/s", 125e6},
                                            UnitName{"Tbit/s", 125e9}};
template <>
constexpr std::array kUnits<Watts>{UnitName{"W", 1.0}, UnitName{"mW", 1e-3}, UnitName{"kW", 1e3}, UnitName{"MW", 1e6}};
template <>
constexpr std::array kUnits<Joules>{UnitName{"J", 1.0},     UnitName{"kJ", 1e3}, UnitName{"MJ", 1e6},    UnitName{"pJ", 1e-12},
                                    UnitName{"kWh", 3.6e6}, UnitName{"GJ", 1e9}, UnitName{"MWh", 3.6e9}, UnitName{"GWh", 3.6e12}};
template <>
constexpr std::array kUnits<DollarsPerHour>{UnitName{"$/h", 1.0}, UnitName{"$/d", 1.0 / 24}};
template <>
constexpr std::array kUnits<KilogramsPerJoule>{UnitName{"kg/kWh", 1 / 3.6e6}, UnitName{"g/kWh", 1e-3 / 3.6e6}, UnitName{"kg/J", 1.0}};
template <>
constexpr std::array kUnits<DollarsPerJoule>{UnitName{"$/kWh", 1 / 3.6e6}, UnitName{"$/MWh", 1e-3 / 3.6e6}, UnitName{"$/J", 1.0}};
template <>
constexpr std::array kUnits<Hertz>{UnitName{"Hz", 1.0}, UnitName{"kHz", 1e3}, UnitName{"MHz", 1e6}, UnitName{"GHz", 1e9}};

std::string accepted(std::span<const UnitName> units) { return joined(units, ", ", &UnitName::name); }

double parse(const std::string& text, std::span<const UnitName> units) {
  std::string_view name = text;
  const auto number = take_number<double>(name);
  if (!number)
    throw BadInput("\"" + text + "\" is not a number with a unit; write for example \"1.5 " + std::string(units.front().name) + "\"");
  name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
  for (const auto& unit : units) {
    if (unit.name != name) continue;
    const double value = *number * unit.factor;
    if (!std::isfinite(value)) throw BadInput("\"" + text + "\" is not a finite value");
    return value;
  }
  throw BadInput((name.empty() ? "\"" + text + "\" has no unit" : "\"" + text + "\" has an unknown unit \"" + std::string(name) + "\"") +
                 "; accepted: " + accepted(units));
}

std::string shortest(double number) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  return {buffer, end};
}

std::string exact(double value, std::span<const UnitName> units) {
  // Dividing and multiplying again may lose the last bit: only units that give the value back are candidates.
  // Every table has a unit of factor 1, which always does.
  std::string best;
  for (const auto& unit : units) {
    const double number = value / unit.factor;
    if (number * unit.factor != value) continue;
    auto text = shortest(number) + " " + std::string(unit.name);
    const auto rank = [](const std::string& t) {
      return std::pair(t.find("e+") != std::string::npos || t.find("e-") != std::string::npos, t.size());
    };
    if (best.empty() || rank(text) < rank(best)) best = std::move(text);
  }
  return best;
}

/// The largest unit that leaves at least one digit before the point; the smallest one otherwise; of 0 the one without a prefix.
const UnitName& unit_for(double value, std::span<const UnitName> units) {
  if (value == 0) return *std::ranges::find(units, 1.0, &UnitName::factor);
  const UnitName* best = &units.front();
  for (const auto& unit : units) {
    const bool fits = std::fabs(value) >= unit.factor;
    const bool better = fits ? unit.factor > best->factor || std::fabs(value) < best->factor
                             : unit.factor < best->factor && std::fabs(value) < best->factor;
    if (better) best = &unit;
  }
  return *best;
}

std::string scaled(double value, std::span<const UnitName> units) {
  const auto& unit = unit_for(value, units);
  const double shown = value / unit.factor;
  const bool long_number = std::abs(shown) >= 999.5 && std::abs(shown) < 1e7;  // 1070 s, not 1.07e+03 s
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, long_number ? "%.0f %.*s" : "%.3g %.*s", shown, static_cast<int>(unit.name.size()),
                unit.name.data());
  return buffer;
}

constexpr std::array kSecondText{UnitName{"ns", 1e-9}, UnitName{"us", 1e-6}, UnitName{"ms", 1e-3}, UnitName{"s", 1.0}};
constexpr std::array kByteText{UnitName{"B", 1.0}, UnitName{"kB", 1e3}, UnitName{"MB", 1e6}, UnitName{"GB", 1e9}, UnitName{"TB", 1e12}};
constexpr std::array kFlopText{UnitName{"FLOP", 1.0},   UnitName{"MFLOP", 1e6},  UnitName{"GFLOP", 1e9},  UnitName{"TFLOP", 1e12},
                               UnitName{"PFLOP", 1e15}, UnitName{"EFLOP", 1e18}, UnitName{"ZFLOP", 1e21}, UnitName{"YFLOP", 1e24}};
constexpr std::array kByteRateText{UnitName{"B/s", 1.0}, UnitName{"kB/s", 1e3}, UnitName{"MB/s", 1e6}, UnitName{"GB/s", 1e9},
                                   UnitName{"TB/s", 1e12}};
constexpr std::array kJouleText{UnitName{"J", 1.0}, UnitName{"kJ", 1e3}, UnitName{"MJ", 1e6}};

}  // namespace

std::string to_text(Seconds q) { return scaled(q.value(), kSecondText); }
std::string to_text(Bytes q) { return scaled(q.value(), kByteText); }
std::string to_text(Flops q) { return scaled(q.value(), kFlopText); }
std::string to_text(FlopsPerSecond q) { return scaled(q.value(), kUnits<FlopsPerSecond>); }
std::string to_text(BytesPerSecond q) { return scaled(q.value(), kByteRateText); }
std::string to_text(Watts q) { return scaled(q.value(), kUnits<Watts>); }
std::string to_text(Joules q) { return scaled(q.value(), kJouleText); }
std::string to_text(Dollars q) {
  constexpr double kCent = 0.01, kLeastWhole = 0.9995;  // what three digits round to a dollar has two behind the point, as a dollar has
  const double amount = std::fabs(q.value());
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, amount < kLeastWhole ? "$%.3g" : "$%.2f", q.value());
  std::string text = buffer;
  if (amount >= kCent && amount < kLeastWhole) text.resize(std::max(text.size(), text.find('.') + std::string_view(".00").size()), '0');
  return text;
}

template <class Unit>
std::string to_exact_text(Quantity<Unit> q) {
  return exact(q.value(), kUnits<Quantity<Unit>>);
}
template std::string to_exact_text(Seconds);
template std::string to_exact_text(Bytes);
template std::string to_exact_text(FlopsPerSecond);
template std::string to_exact_text(BytesPerSecond);
template std::string to_exact_text(Watts);
template std::string to_exact_text(Hertz);
template std::string to_exact_text(DollarsPerHour);
template std::string to_exact_text(KilogramsPerJoule);
template std::string to_exact_text(DollarsPerJoule);

template <class Q>
Q parse_quantity(const std::string& text) {
  return Q(parse(text, kUnits<Q>));
}
template Seconds parse_quantity(const std::string&);
template Bytes parse_quantity(const std::string&);
template FlopsPerSecond parse_quantity(const std::string&);
template BytesPerSecond parse_quantity(const std::string&);
template Watts parse_quantity(const std::string&);
template Joules parse_quantity(const std::string&);
template DollarsPerHour parse_quantity(const std::string&);
template KilogramsPerJoule parse_quantity(const std::string&);
template DollarsPerJoule parse_quantity(const std::string&);
template Hertz parse_quantity(const std::string&);

}  // namespace rehearsal
