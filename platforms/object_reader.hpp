#pragma once
// Reads the keys of one JSON object. Every refusal is "FILE: PATH: what is wrong; what would be right", and ends in the key itself.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// Plausible values of a quantity, both ends included.
template <class Q>
struct Bounds {
  Q low, high;
};

class ObjectReader {
 public:
  /// `path` is empty for the document itself. Throws BadInput when `value` is no object or its "sources" are no texts.
  ObjectReader(const nlohmann::json& value, std::string where, std::string path);

  [[nodiscard]] bool has(std::string_view key);
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string text_or(std::string_view key, std::string fallback);
  /// Up to `most` texts; none where the key is absent.
  [[nodiscard]] std::vector<std::string> texts_or_none(std::string_view key, std::size_t most);
  /// The value is a text, not an object.
  [[nodiscard]] bool is_text(std::string_view key);
  /// Position in `names`.
  [[nodiscard]] std::size_t choice(std::string_view key, std::span<const std::string_view> names);
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high);
  /// One number, or a list of 1 to `most`.
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key, std::int64_t low, std::int64_t high, int most);
  [[nodiscard]] Sourced<double> number(std::string_view key, double low, double high);
  [[nodiscard]] std::optional<Sourced<double>> number_or_none(std::string_view key, double low, double high) {
    return has(key) ? std::optional(number(key, low, high)) : std::nullopt;
  }
  /// A text of a number and a unit.
  template <class Q>
  [[nodiscard]] Sourced<Q> quantity(std::string_view key, Bounds<Q> bounds);
  template <class Q>
  [[nodiscard]] Sourced<Q> quantity_or(std::string_view key, Bounds<Q> bounds, Q fallback) {
    return has(key) ? quantity(key, bounds) : Sourced<Q>(fallback);
  }

  template <class Q>
  [[nodiscard]] std::optional<Sourced<Q>> quantity_or_none(std::string_view key, Bounds<Q> bounds) {
    return has(key) ? std::optional(quantity(key, bounds)) : std::nullopt;
  }

  [[nodiscard]] ObjectReader object(std::string_view key);
  /// Readers of the elements, which must be objects; at least `least` of them.
  [[nodiscard]] std::vector<ObjectReader> objects(std::string_view key, std::size_t least, std::size_t most);
  [[nodiscard]] std::vector<std::string> keys() const;  ///< all but "sources"
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Refuses a key, or the source of a key, that nobody has asked for.
  void finish() const;
  [[noreturn]] void refuse(std::string_view key, const std::string& what) const;

 private:
  [[nodiscard]] const nlohmann::json& at(std::string_view key, std::string_view example);
  [[nodiscard]] std::string source_of(std::string_view key) const;
  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] std::int64_t checked_integer(const nlohmann::json& value, std::string_view key, std::int64_t low, std::int64_t high) const;
  void refuse_unknown(const std::string& key, const std::string& path) const;

  const nlohmann::json* value_;
  std::string where_, path_;
  std::vector<std::string> known_;
  std::map<std::string, std::string, std::less<>> sources_;
};

}  // namespace rehearsal::platforms
