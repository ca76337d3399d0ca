#include "platforms/strict_json.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text_lines.hpp"

namespace rehearsal::platforms {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestQuote = 200;

std::string shortened(std::string text) {
  if (text.size() > kLongestQuote) text = text.substr(0, kLongestQuote) + "…";
  return text;
}

/// Builds the document from parser events, which arrive without recursion.
class StrictBuilder final : public nlohmann::json_sax<json> {
 public:
  /// `one_line`: the text is a line of a file, whose number stands in `where`.
  explicit StrictBuilder(const std::string& where, bool one_line = false) : where_(where), one_line_(one_line) {}
  [[nodiscard]] json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { throw InternalError("JSON text holds no binary values"); }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) throw BadInput(where_, "the key \"" + shortened(name) + "\" is given twice in one object; keep one");
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    auto reason = reason_of(error);
    constexpr std::string_view kFirst = "line 1, ";
    if (const auto at = reason.find(kFirst); one_line_ && at != std::string::npos) reason.erase(at, kFirst.size());
    throw BadInput(where_, "is not JSON: " + shortened(std::move(reason)));
  }

 private:
  json* place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    auto& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  template <class T>
  bool add(T&& value) {
    place(json(std::forward<T>(value)));
    return true;
  }

  bool open(json container) {
    if (open_.size() >= static_cast<std::size_t>(kDeepestJson))
      throw BadInput(where_, "is nested deeper than " + std::to_string(kDeepestJson) + " levels");
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& where_;
  bool one_line_;
  json root_;
  std::vector<json*> open_;  ///< containers being filled; each is the last element of the one before, so none of them moves
  std::string key_;
};

std::string read_limited(std::ifstream& file, const std::string& path) {
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLargestJson) throw BadInput(path, "is larger than " + std::to_string(kLargestJson >> 20) + " MiB");
  }
  if (file.bad()) throw BadInput(path, "cannot be read to its end");
  return text;
}

json built(const std::string& text, const std::string& where, StrictBuilder builder) {
  refuse_utf16(text, where);
  json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace

std::string reason_of(const std::exception& problem) {
  const std::string text = problem.what();
  const auto number_ends = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return number_ends == std::string::npos ? text : text.substr(number_ends + 2);
}

json parse_strict_json(const std::string& text, const std::string& where) { return built(text, where, StrictBuilder(where)); }

json read_json_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw BadInput(path, "is a folder; a JSON file is needed");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadInput(path, std::string("cannot be opened: ") + std::strerror(errno));
  return parse_strict_json(read_limited(file, path), path);
}

void for_each_json_line(std::istream& in, const std::string& where, const std::function<void(const nlohmann::json&, int line)>& take) {
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string at = where + ": line " + std::to_string(number);
    const auto document = built(line, at, StrictBuilder(at, true));
    try {
      take(document, number);
    } catch (const BadInput& error) {
      throw BadInput(at, error.what());
    }
  }
  if (in.bad()) throw EnvironmentFailure(where + ": cannot be read to its end");
}

void for_each_json_line(const std::string& path, const char* what, const std::function<void(const nlohmann::json&, int line)>& take) {
  std::error_code ignored;
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path, ignored))
    throw BadInput(path, std::string("cannot be read; ") + what + ", one JSON object a line");
  for_each_json_line(in, path, take);
}

}  // namespace rehearsal::platforms
