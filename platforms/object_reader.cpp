#include "platforms/object_reader.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/short_number.hpp"

namespace rehearsal::platforms {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestQuantity = 64;
constexpr std::size_t kLongestText = 4000;
constexpr std::string_view kSources = "sources";

std::string shown(const json& value) {
  auto text = value.is_structured() ? std::string(value.type_name()) : value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kLongestQuantity) text = text.substr(0, kLongestQuantity) + "…";
  return text;
}

/// "0 to 10 kg/kWh". The last digits of a number are what conversions between units leave, and 0 is the same in all of them.
template <class Q>
std::string range_of(const Bounds<Q>& bounds) {
  constexpr int kDigits = 15;
  const auto limit = [](Q q) {
    const auto exact = to_exact_text(q);
    return short_number(std::stod(exact), kDigits) + exact.substr(exact.find(' '));
  };
  return (bounds.low == Q(0) ? "0" : limit(bounds.low)) + " to " + limit(bounds.high);
}

constexpr std::string_view example_of(Seconds) { return "1.5 us"; }
constexpr std::string_view example_of(Bytes) { return "80 GB"; }
constexpr std::string_view example_of(FlopsPerSecond) { return "312 TFLOP/s"; }
constexpr std::string_view example_of(BytesPerSecond) { return "25 GB/s"; }
constexpr std::string_view example_of(Watts) { return "400 W"; }
constexpr std::string_view example_of(DollarsPerHour) { return "2.5 $/h"; }
constexpr std::string_view example_of(KilogramsPerJoule) { return "0.35 kg/kWh"; }
constexpr std::string_view example_of(Hertz) { return "1.41 GHz"; }
constexpr std::string_view example_of(DollarsPerJoule) { return "0.12 $/kWh"; }

}  // namespace

ObjectReader::ObjectReader(const json& value, std::string where, std::string path)
    : value_(&value), where_(std::move(where)), path_(std::move(path)) {
  if (!value.is_object()) {
    const auto what = "is " + shown(value) + "; an object with keys in braces is needed";
    throw BadInput(where_, path_.empty() ? "the document " + what : path_ + ": " + what);
  }
  const auto sources = value.find(kSources);
  if (sources == value.end()) return;
  if (!sources->is_object()) refuse(kSources, "must be an object of texts, key by key");
  for (const auto& [key, source] : sources->items()) {
    if (!source.is_string()) refuse("sources." + key, "must be a text that says where the figure comes from");
    sources_[key] = source.get<std::string>();
  }
}

std::string ObjectReader::path_of(std::string_view key) const { return (path_.empty() ? "" : path_ + ".") + std::string(key); }

void ObjectReader::refuse(std::string_view key, const std::string& what) const { throw BadInput(where_, path_of(key) + ": " + what); }

bool ObjectReader::has(std::string_view key) {
  if (std::ranges::find(known_, key) == known_.end()) known_.emplace_back(key);
  return value_->contains(key);
}

const json& ObjectReader::at(std::string_view key, std::string_view example) {
  if (!has(key)) refuse(key, "is missing; write for example \"" + std::string(key) + "\": " + std::string(example));
  return value_->at(std::string(key));
}

std::string ObjectReader::source_of(std::string_view key) const {
  const auto found = sources_.find(key);
  return found == sources_.end() ? std::string() : found->second;
}

std::string ObjectReader::text(std::string_view key) {
  const auto& value = at(key, "\"a text\"");
  if (!value.is_string()) refuse(key, "is " + shown(value) + "; a text is needed");
  auto text = value.get<std::string>();
  if (text.empty() || text.size() > kLongestText) refuse(key, "must have 1 to " + std::to_string(kLongestText) + " characters");
  return text;
}

std::string ObjectReader::text_or(std::string_view key, std::string fallback) { return has(key) ? text(key) : std::move(fallback); }

std::vector<std::string> ObjectReader::texts_or_none(std::string_view key, std::size_t most) {
  if (!has(key)) return {};
  const auto& value = at(key, "[\"a text\"]");
  const auto is_short_text = [](const json& v) {
    return v.is_string() && !v.get<std::string>().empty() && v.get<std::string>().size() < 200;
  };
  if (!value.is_array() || value.size() > most || !std::all_of(value.begin(), value.end(), is_short_text))
    refuse(key, "must be a list of up to " + std::to_string(most) + " short texts");
  return value.get<std::vector<std::string>>();
}

bool ObjectReader::is_text(std::string_view key) { return has(key) && value_->at(std::string(key)).is_string(); }

std::size_t ObjectReader::choice(std::string_view key, std::span<const std::string_view> names) {
  const auto chosen = text(key);
  const auto found = std::find(names.begin(), names.end(), chosen);
  if (found == names.end()) refuse(key, "is " + shown(chosen) + "; must be one of " + joined(names));
  return static_cast<std::size_t>(found - names.begin());
}

std::int64_t ObjectReader::checked_integer(const json& value, std::string_view key, std::int64_t low, std::int64_t high) const {
  const auto range = "a whole number from " + std::to_string(low) + " to " + std::to_string(high) + " is needed";
  if (!value.is_number_integer()) refuse(key, "is " + shown(value) + "; " + range);
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
  if (huge || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) refuse(key, "is " + shown(value) + "; " + range);
  return value.get<std::int64_t>();
}

std::int64_t ObjectReader::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  return checked_integer(at(key, std::to_string(low)), key, low, high);
}

std::vector<std::int64_t> ObjectReader::integers(std::string_view key, std::int64_t low, std::int64_t high, int most) {
  const auto& value = at(key, most == 1 ? std::to_string(low) : "[" + std::to_string(low) + "]");
  if (most == 1) return {checked_integer(value, key, low, high)};
  if (!value.is_array() || value.empty() || value.size() > static_cast<std::size_t>(most))
    refuse(key, "is " + shown(value) + "; a list of 1 to " + std::to_string(most) + " whole numbers is needed");
  std::vector<std::int64_t> numbers;
  for (const auto& element : value) numbers.push_back(checked_integer(element, key, low, high));
  return numbers;
}

Sourced<double> ObjectReader::number(std::string_view key, double low, double high) {
  const auto& value = at(key, "1.5");
  char range[80];
  std::snprintf(range, sizeof range, "a number from %g to %g is needed", low, high);
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high)) refuse(key, "is " + shown(value) + "; " + range);
  return {value.get<double>(), source_of(key)};
}

template <class Q>
Sourced<Q> ObjectReader::quantity(std::string_view key, Bounds<Q> bounds) {
  const auto example = "\"" + std::string(example_of(Q())) + "\"";
  const auto& value = at(key, example);
  if (!value.is_string()) refuse(key, "is " + shown(value) + "; a text of a number and a unit is needed, for example " + example);
  const auto text = value.get<std::string>();
  if (text.size() > kLongestQuantity) refuse(key, "is " + shown(value) + "; write for example " + example);
  Q result;
  try {
    result = parse_quantity<Q>(text);
  } catch (const BadInput& refusal) {
    refuse(key, refusal.what());
  }
  if (!(result >= bounds.low && result <= bounds.high)) refuse(key, "is " + shown(value) + "; must be from " + range_of(bounds));
  return {result, source_of(key)};
}

template Sourced<Seconds> ObjectReader::quantity(std::string_view, Bounds<Seconds>);
template Sourced<Bytes> ObjectReader::quantity(std::string_view, Bounds<Bytes>);
template Sourced<FlopsPerSecond> ObjectReader::quantity(std::string_view, Bounds<FlopsPerSecond>);
template Sourced<BytesPerSecond> ObjectReader::quantity(std::string_view, Bounds<BytesPerSecond>);
template Sourced<Hertz> ObjectReader::quantity(std::string_view, Bounds<Hertz>);
template Sourced<Watts> ObjectReader::quantity(std::string_view, Bounds<Watts>);
template Sourced<DollarsPerHour> ObjectReader::quantity(std::string_view, Bounds<DollarsPerHour>);
template Sourced<KilogramsPerJoule> ObjectReader::quantity(std::string_view, Bounds<KilogramsPerJoule>);
template Sourced<DollarsPerJoule> ObjectReader::quantity(std::string_view, Bounds<DollarsPerJoule>);

ObjectReader ObjectReader::object(std::string_view key) { return {at(key, "{ … }"), where_, path_of(key)}; }

std::vector<ObjectReader> ObjectReader::objects(std::string_view key, std::size_t least, std::size_t most) {
  const auto& value = at(key, "[ … ]");
  if (!value.is_array() || value.size() < least || value.size() > most)
    refuse(key, (value.is_array() ? "has " + std::to_string(value.size()) + " elements" : "is " + shown(value)) + "; a list of " +
                    std::to_string(least) + " to " + std::to_string(most) + " objects is needed");
  std::vector<ObjectReader> readers;
  for (std::size_t i = 0; i < value.size(); ++i) readers.emplace_back(value[i], where_, path_of(key) + "[" + std::to_string(i) + "]");
  return readers;
}

std::vector<std::string> ObjectReader::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, ignored] : value_->items())
    if (key != kSources) names.push_back(key);
  return names;
}

void ObjectReader::refuse_unknown(const std::string& key, const std::string& path) const {
  if (std::find(known_.begin(), known_.end(), key) != known_.end()) return;
  const auto near = nearest_name(key, {known_.begin(), known_.end()});
  const auto here = path.empty() ? std::string() : path + ": ";
  throw BadInput(where_,
                 here + "unknown key " + shown(key) + (near ? "; did you mean \"" + *near + "\"?" : "; keys here are " + joined(known_)));
}

void ObjectReader::finish() const {
  for (const auto& [key, ignored] : value_->items())
    if (key != kSources) refuse_unknown(key, path_);
  for (const auto& [key, ignored] : sources_) refuse_unknown(key, path_of(kSources));
}

}  // namespace rehearsal::platforms
