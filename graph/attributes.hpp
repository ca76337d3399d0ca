#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rehearsal::graph {

using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>>;

/// Static facts of a node (strides, axes, epsilon): few, so a sorted vector. Equal attributes compare equal and hash equal.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> items);

  void set(std::string_view key, AttributeValue value);
  void erase(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] const AttributeValue* find(std::string_view key) const;

  /// The value under `key`, or the default. Throws BadInput naming the key when it has another kind.
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  [[nodiscard]] double number(std::string_view key, double otherwise) const;  ///< an integer is accepted
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key, std::vector<std::int64_t> otherwise = {}) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view key, std::vector<double> otherwise = {}) const;

  [[nodiscard]] const std::vector<std::pair<std::string, AttributeValue>>& items() const { return items_; }
  /// Stable text such as "axis=1;pads=[0,0]": part of a kernel's identity.
  [[nodiscard]] std::string to_text() const;
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::vector<std::pair<std::string, AttributeValue>> items_;
};

}  // namespace rehearsal::graph
