#include "formats/onnx/symbols.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "base/names.hpp"

namespace rehearsal::formats {
namespace {

constexpr int kSymbolsDeepest = 64;

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

/// A text that follows no rule of this grammar: it is then one oddly named symbol.
struct NotAnExpression {};

/// Recursive descent; a value is nullopt once a symbol without one took part.
class Parser {
 public:
  Parser(std::string_view text, const Bindings& bindings, std::set<std::string>& unbound)
      : text_(text), bindings_(bindings), unbound_(unbound) {}

  std::optional<std::int64_t> whole() {
    const auto value = sum();
    if (peek() != '\0') throw NotAnExpression{};
    return value;
  }

 private:
  using Size = std::optional<std::int64_t>;

  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view token) {
    (void)peek();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  [[noreturn]] void fail(const std::string& what) const { throw BadInput("size '" + std::string(text_) + "'", what); }

  /// `overflows(result)` computes the result and says whether it does not fit.
  template <class Operation>
  Size checked(const Operation& overflows) const {
    std::int64_t value = 0;
    if (overflows(value)) fail("its value does not fit into 64 bits");
    return value;
  }

  Size sum() {
    if (++depth_ > kSymbolsDeepest) throw NotAnExpression{};
    Size left = product();
    while (true) {
      const bool add = take("+");
      if (!add && !take("-")) break;
      const Size right = product();
      if (left && right) {
        left = checked([&](std::int64_t& value) {
          return add ? __builtin_add_overflow(*left, *right, &value) : __builtin_sub_overflow(*left, *right, &value);
        });
      } else {
        left = std::nullopt;
      }
    }
    --depth_;
    return left;
  }

  Size product() {
    Size left = factor();
    while (true) {
      const char c = peek();
      if (c == '*')
        left = multiplied(left);
      else if (c == '/' || c == '%')
        left = divided(left);
      else
        return left;
    }
  }

  Size multiplied(Size left) {
    ++at_;
    if (peek() == '*') throw NotAnExpression{};
    const Size right = factor();
    if (!left || !right) return std::nullopt;
    return checked([&](std::int64_t& value) { return __builtin_mul_overflow(*left, *right, &value); });
  }

  Size divided(Size left) {
    const bool remainder = text_[at_] == '%';
    if (!take("//")) ++at_;
    const Size right = factor();
    if (!left || !right) return std::nullopt;
    if (*right <= 0) fail("divides by " + std::to_string(*right) + "; sizes divide by positive numbers only");
    const std::int64_t quotient = *left / *right - (*left % *right < 0 ? 1 : 0);
    return remainder ? *left - quotient * *right : quotient;
  }

  Size factor() {
    const char c = peek();
    if (c == '(') return parenthesized();
    if (c == '-') {
      ++at_;
      if (++depth_ > kSymbolsDeepest) throw NotAnExpression{};
      const Size value = factor();
      --depth_;
      if (!value) return std::nullopt;
      return checked([&](std::int64_t& negative) { return __builtin_sub_overflow(std::int64_t{0}, *value, &negative); });
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
    if (starts_name(c)) return symbol();
    throw NotAnExpression{};
  }

  Size parenthesized() {
    ++at_;
    const Size value = sum();
    if (!take(")")) throw NotAnExpression{};
    return value;
  }

  Size number() {
    std::int64_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) || __builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value))
        fail("its value does not fit into 64 bits");
    }
    if (at_ < text_.size() && starts_name(text_[at_])) throw NotAnExpression{};
    return value;
  }

  Size symbol() {
    const std::size_t start = at_;
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
    const std::string name(text_.substr(start, at_ - start));
    if (peek() == '(') return call(name);
    const auto found = bindings_.find(name);
    if (found != bindings_.end()) return found->second;
    unbound_.insert(name);
    return std::nullopt;
  }

  Size call(const std::string& written) {
    const auto name = lower_case(written);
    if (name != "min" && name != "max" && name != "floor") throw NotAnExpression{};
    ++at_;
    Size result = sum();
    while (take(",")) {
      const Size other = sum();
      if (!result || !other)
        result = std::nullopt;
      else
        result = name == "max" ? std::max(*result, *other) : std::min(*result, *other);
    }
    if (!take(")")) throw NotAnExpression{};
    return result;
  }

  std::string_view text_;
  const Bindings& bindings_;
  std::set<std::string>& unbound_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> evaluate_size(std::string_view expression, const Bindings& bindings, std::set<std::string>* unbound) {
  if (const auto whole = bindings.find(std::string(expression)); whole != bindings.end()) return whole->second;
  std::set<std::string> missing;
  std::optional<std::int64_t> value;
  try {
    value = Parser(expression, bindings, missing).whole();
  } catch (const NotAnExpression&) {
    missing = {std::string(expression)};
    value.reset();
  }
  if (unbound) unbound->merge(missing);
  return value;
}

}  // namespace rehearsal::formats
