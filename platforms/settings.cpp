#include "platforms/settings.hpp"

#include <array>
#include <cctype>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "platforms/json.hpp"

namespace rehearsal::platforms {
namespace {

using nlohmann::json;

/// A part of a platform's file and how its figures are called.
struct SettingPart {
  std::string_view prefix;
  bool of_nodes;
  std::string_view key;  ///< of the part in its group of nodes, or in the document; empty: the whole
};
constexpr std::array kParts{SettingPart{"device.peaks.", true, "peaks"},
                            SettingPart{"device.", true, "device"},
                            SettingPart{"link.", true, "intra"},
                            SettingPart{"nic.", true, "nic"},
                            SettingPart{"node.storage.", true, "storage"},
                            SettingPart{"node.", true, ""},
                            SettingPart{"storage.", false, "storage"},
                            SettingPart{"topology.", false, "topology"},
                            SettingPart{"", false, ""}};

/// What identifies a device for its libraries is no figure that another value of says something new about.
bool is_figure(std::string_view key, const json& value) {
  if (key == "schema" || key == "device_limit" || key == "compute_capability" || key == "memory_bus") return false;
  if (value.is_number()) return true;
  return value.is_string() && !value.get_ref<const std::string&>().empty() &&
         std::isdigit(static_cast<unsigned char>(value.get_ref<const std::string&>().front())) != 0;
}

/// Nothing where a group of nodes has no such part.
json* part_of(const SettingPart& part, json& owner) {
  json* at = part.prefix.starts_with("device.") ? &owner.at("device") : &owner;
  if (part.key.empty() || part.key == "device") return at;
  const auto found = at->find(part.key);
  return found == at->end() ? nullptr : &*found;
}

std::vector<json*> owners_of(const SettingPart& part, json& document) {
  if (!part.of_nodes) return {&document};
  std::vector<json*> groups;
  for (auto& group : document.at("nodes")) groups.push_back(&group);
  return groups;
}

/// Where a figure stands in the document, once per group of nodes.
std::vector<json*> places_of(std::string_view name, json& document) {
  for (const auto& part : kParts) {
    if (!name.starts_with(part.prefix)) continue;
    const auto key = name.substr(part.prefix.size());
    std::vector<json*> places;
    for (auto* owner : owners_of(part, document))
      if (auto* found = part_of(part, *owner); found != nullptr && found->contains(key)) places.push_back(&found->at(std::string(key)));
    if (!places.empty()) return places;
  }
  return {};
}

/// "x2" of "25 GB/s" is "50 GB/s".
json scaled(const json& now, double factor) {
  if (now.is_number_integer()) {
    const double value = now.get<double>() * factor;
    if (value != std::floor(value)) throw BadInput("gives " + std::to_string(value) + ", and a whole number is needed");
    return static_cast<std::int64_t>(value);
  }
  if (now.is_number()) return now.get<double>() * factor;
  std::string_view unit = now.get_ref<const std::string&>();
  const auto number = take_number<double>(unit);
  return json(*number * factor).dump() + std::string(unit);
}

json value_of(const json& now, const std::string& text) {
  if (text.starts_with("x")) {
    const auto factor = parse_number<double>(std::string_view(text).substr(1));
    if (!factor || !(*factor > 0) || !std::isfinite(*factor)) throw BadInput("a factor is written as x2 or x0.5");
    return scaled(now, *factor);
  }
  if (!now.is_number()) return text;
  if (const auto whole = parse_number<std::int64_t>(text)) return *whole;
  if (const auto number = parse_number<double>(text)) return *number;
  throw BadInput("a number is needed");
}

/// Who sets a price, sets it on their own terms.
void own_price(json& document, const std::string& where) {
  for (auto& group : document.at("nodes")) {
    group.erase("price_basis");
    group["sources"]["price"] = where;
  }
}

}  // namespace

std::vector<std::string> setting_names(const Platform& platform) {
  json document = to_json(platform);
  std::vector<std::string> names;
  for (const auto& part : kParts) {
    auto* found = part_of(part, *owners_of(part, document).front());
    if (found == nullptr) continue;
    for (const auto& [key, value] : found->items())
      if (is_figure(key, value)) names.push_back(std::string(part.prefix) + key);
  }
  return names;
}

std::string setting(const Platform& platform, std::string_view name) {
  json document = to_json(platform);
  const auto places = places_of(name, document);
  ensure(!places.empty(), "a figure that the platform has");
  return places.front()->is_string() ? places.front()->get<std::string>() : places.front()->dump();
}

Platform with_setting(const Platform& platform, const std::string& name, const std::string& value) {
  const auto names = setting_names(platform);
  const auto known = known_name("platform " + platform.name, name, {names.begin(), names.end()});
  json document = to_json(platform);
  const auto where = std::string(known) + "=" + value;
  try {
    for (auto* place : places_of(known, document)) *place = value_of(*place, value);
  } catch (const BadInput& problem) {
    throw BadInput(where, problem.what());
  }
  if (known == "node.price" && document != json(to_json(platform))) own_price(document, where);
  auto result = read_platform(document, where);
  result.node_limit = platform.node_limit;
  return result;
}

}  // namespace rehearsal::platforms
