#include "cli/text/result_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/text/printable.hpp"
#include "cli/text/text_table.hpp"
#include "cli/text/wrap.hpp"
#include "predict/memory_risk.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string number_text(double value) {
  if (!std::isfinite(value)) return "not finite";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer,
                value == static_cast<double>(static_cast<long long>(value)) && value < 1e15 && value > -1e15 ? "%.0f" : "%.4g", value);
  return buffer;
}

/// From this on, a unit is what people say; `name` follows the number.
struct PeoplesUnit {
  double from, factor;
  std::string_view name;
};

/// In the unit that people use for `like`; empty where that is below the first one.
std::string in_peoples_units(double value, std::span<const PeoplesUnit> units, double like) {
  std::string text;
  for (const auto& unit : units)
    if (std::isfinite(value) && like >= unit.from) {
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, "%.4g ", value / unit.factor);
      text = buffer + std::string(unit.name);
    }
  return text;
}

constexpr double kSecondsOfMinute = 60, kSecondsOfHour = 3600, kSecondsOfDay = 86400, kKilowattHour = 3.6e6;
constexpr PeoplesUnit kDurations[] = {{10 * kSecondsOfMinute, kSecondsOfMinute, "min"},
                                      {2 * kSecondsOfHour, kSecondsOfHour, "h"},
                                      {2 * kSecondsOfDay, kSecondsOfDay, "days"}};
constexpr PeoplesUnit kEnergies[] = {{0.1 * kKilowattHour, kKilowattHour, "kWh"},
                                     {1e3 * kKilowattHour, 1e3 * kKilowattHour, "MWh"},
                                     {1e6 * kKilowattHour, 1e6 * kKilowattHour, "GWh"}};
constexpr PeoplesUnit kDeviceTimes[] = {{0, 1, "device-seconds"}, {10 * kSecondsOfMinute, kSecondsOfHour, "device-hours"}};
constexpr PeoplesUnit kMasses[] = {{0, 1, "kg"}, {1e4, 1e3, "t"}};

constexpr PeoplesUnit kCounts[] = {{1e6, 1e6, "M"}, {1e9, 1e9, "B"}, {1e12, 1e12, "T"}};

constexpr double kPercent = 100;
/// Ends of the keys of shares.
constexpr std::string_view kShares[] = {"share",        "mfu",      "effective",        "mean_error",
                                        "median_error", "coverage", "held_by_interval", "mean_regret"};

std::string rate_text(double value, const char* what) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, value >= 100 && value < 1e9 ? "%.0f %s" : "%.3g %s", value, what);
  return buffer;
}

/// Counts of which people know the first digits; those that are known to the last are whole numbers in JSON.
bool is_count(const std::string& key) { return key == "parameters" || key == "tokens"; }

/// A number under a key such as "step_seconds" with the unit that the key's end names, of those that people use the one for `like`.
std::string with_unit(const std::string& key, double value, double like) {
  if (key == "device_seconds") return in_peoples_units(value, kDeviceTimes, like);
  if (key.ends_with("seconds")) {
    const auto text = in_peoples_units(value, kDurations, like);
    return text.empty() ? rehearsal::to_text(Seconds(value)) : text;
  }
  if (key.ends_with("bytes_per_second")) return rehearsal::to_text(BytesPerSecond(value));
  if (key.ends_with("bytes")) return rehearsal::to_text(Bytes(value));
  if (key.ends_with("joules")) {
    const auto text = in_peoples_units(value, kEnergies, like);
    return text.empty() ? rehearsal::to_text(Joules(value)) : text;
  }
  if (key == "tokens_per_second_per_device") return rate_text(value, "tokens/s/device");
  if (key == "tokens_per_second") return rate_text(value, "tokens/s");
  if (key == "samples_per_second") return rate_text(value, "samples/s");
  if (key.ends_with("dollars")) return rehearsal::to_text(Dollars(value));
  if (key.ends_with("flops")) return rehearsal::to_text(Flops(value));
  if (key.ends_with("chance")) return predict::chance_text(value);
  if (std::ranges::any_of(kShares, [&](auto end) { return key.ends_with(end); })) return number_text(kPercent * value) + " %";
  if (is_count(key) && value >= kCounts[0].from) return in_peoples_units(value, kCounts, like);
  if (key.ends_with("_kg")) return in_peoples_units(value, kMasses, like);
  return number_text(value);
}

std::string with_unit(const std::string& key, double value) { return with_unit(key, value, value); }

bool is_interval(const Json& v) { return v.is_object() && v.contains("value") && v.contains("low") && v.contains("high"); }

std::string scalar_text(const std::string& key, const Json& v) {
  if (is_interval(v)) {
    const auto value = v["value"].get<double>();
    std::string text = with_unit(key, value) + "  (90 %: " + with_unit(key, v["low"].get<double>(), value) + " to " +
                       with_unit(key, v["high"].get<double>(), value) + ")";
    if (v.contains("capacity")) text += " of " + with_unit(key, v["capacity"].get<double>());
    return text;
  }
  if (v.is_number_integer() && is_count(key)) return number_text(v.get<double>());
  if (v.is_number()) return with_unit(key, v.get<double>());
  if (v.is_string()) return printable(v.get<std::string>(), true);
  if (v.is_boolean()) return v.get<bool>() ? "yes" : "no";
  if (v.is_array()) {
    std::string text;
    for (const auto& item : v) text += (text.empty() ? "" : ", ") + scalar_text(key, item);
    return text.empty() ? "none" : text;
  }
  return v.is_null() ? "unknown" : v.dump();
}

std::string title(std::string key) {
  if (key == "device_seconds") return "device time";
  if (key.ends_with("_per_device")) return "per device";
  for (const char* unit : {"_seconds", "_bytes", "_joules", "_dollars", "_kg"})
    if (key.ends_with(unit)) key.resize(key.size() - std::string_view(unit).size());
  std::replace(key.begin(), key.end(), '_', ' ');
  return printable(key, false);
}

/// A key that says the unit of the numbers within an object; empty where their own keys do.
std::string unit_within(std::string_view object) {
  if (object == "breakdown") return "seconds";
  if (object == "evidence" || object == "from") return "share";
  for (const char* unit : {"_seconds", "_bytes", "_joules", "_dollars"})
    if (object.ends_with(unit)) return std::string(object);
  return {};
}

bool is_table(const Json& v) { return v.is_array() && !v.empty() && v.front().is_object(); }

TextTable table_of(const Json& rows) {
  std::vector<std::string> keys;
  for (const auto& row : rows)
    for (const auto& [key, value] : row.items())
      if ((!value.is_object() || is_interval(value)) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  TextTable table;
  for (const auto& key : keys) table.titles.push_back(title(key));
  for (const auto& row : rows) {
    auto& line = table.rows.emplace_back();
    for (const auto& key : keys) {
      if (!row.contains(key))
        line.emplace_back();
      else if (const auto& value = row[key]; is_interval(value))
        line.push_back({with_unit(key, value["value"].get<double>()), false});
      else
        line.push_back({scalar_text(key, value), value.is_string() || value.is_array()});
    }
  }
  return table;
}

class Writer {
 public:
  explicit Writer(std::size_t columns) : columns_(columns) {}

  /// `unit`: a key whose unit the object's numbers have, where their own keys say none.
  void object(const Json& object, const std::string& indent, const std::string& unit = {}) {
    std::size_t width = 0;
    for (const auto& [key, value] : object.items())
      if (!value.is_object() || is_interval(value)) width = std::max(width, title(key).size());
    for (const auto& [key, value] : object.items()) {
      if (key == "schema") continue;
      if (is_table(value)) {
        text_ += indent + title(key) + ":\n" + to_text(table_of(value), indent.size() + 2, columns_);
      } else if (value.is_object() && !is_interval(value)) {
        text_ += indent + title(key) + ":\n";
        this->object(value, indent + "  ", unit_within(key));
      } else {
        const auto left = indent + title(key) + std::string(width - title(key).size() + 2, ' ');
        text_ += left + hanging(scalar_text(unit.empty() ? key : unit, value), left.size(), columns_) + '\n';
      }
    }
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::size_t columns_;
  std::string text_;
};

}  // namespace

std::string result_text(const Json& result, std::size_t columns) {
  Writer writer(columns);
  writer.object(result, "");
  return std::move(writer).text();
}

}  // namespace rehearsal::cli
