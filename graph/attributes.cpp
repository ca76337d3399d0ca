#include "graph/attributes.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/short_number.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<AttributeValue>> kKinds = {"an integer", "a number", "a text",
                                                                                      "a list of integers", "a list of numbers"};

template <class T>
const T& expect(std::string_view key, const AttributeValue& value, std::size_t kind) {
  if (const T* found = std::get_if<T>(&value)) return *found;
  throw BadInput("attribute " + std::string(key), "is " + std::string(kKinds[value.index()]) + ", it must be " + std::string(kKinds[kind]));
}

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return shortest_number(value); }
std::string text_of(const std::string& value) { return value; }
template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    text += text_of(values[i]);
  }
  return text + "]";
}

bool before(const std::pair<std::string, AttributeValue>& item, std::string_view key) { return item.first < key; }

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> items) {
  for (const auto& [key, value] : items) set(key, value);
}

void Attributes::set(std::string_view key, AttributeValue value) {
  const auto place = std::lower_bound(items_.begin(), items_.end(), key, before);
  if (place != items_.end() && place->first == key) {
    place->second = std::move(value);
  } else {
    items_.emplace(place, std::string(key), std::move(value));
  }
}

void Attributes::erase(std::string_view key) {
  std::erase_if(items_, [key](const auto& item) { return item.first == key; });
}

const AttributeValue* Attributes::find(std::string_view key) const {
  const auto place = std::lower_bound(items_.begin(), items_.end(), key, before);
  return place != items_.end() && place->first == key ? &place->second : nullptr;
}

std::int64_t Attributes::integer(std::string_view key, std::int64_t otherwise) const {
  const auto* value = find(key);
  return value ? expect<std::int64_t>(key, *value, 0) : otherwise;
}

double Attributes::number(std::string_view key, double otherwise) const {
  const auto* value = find(key);
  if (!value) return otherwise;
  if (const auto* whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  return expect<double>(key, *value, 1);
}

std::string Attributes::text(std::string_view key, std::string_view otherwise) const {
  const auto* value = find(key);
  return value ? expect<std::string>(key, *value, 2) : std::string(otherwise);
}

std::vector<std::int64_t> Attributes::integers(std::string_view key, std::vector<std::int64_t> otherwise) const {
  const auto* value = find(key);
  if (value != nullptr) return expect<std::vector<std::int64_t>>(key, *value, 3);
  return otherwise;
}

std::vector<double> Attributes::numbers(std::string_view key, std::vector<double> otherwise) const {
  const auto* value = find(key);
  if (value != nullptr) return expect<std::vector<double>>(key, *value, 4);
  return otherwise;
}

std::string Attributes::to_text() const {
  std::string text;
  for (const auto& [key, value] : items_) {
    if (!text.empty()) text += ';';
    text += key;
    text += '=';
    text += std::visit([](const auto& v) { return text_of(v); }, value);
  }
  return text;
}

}  // namespace rehearsal::graph
