#pragma once
// A configuration file's keys, checked as they are asked for.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::formats {

class Configuration {
 public:
  /// Reads the file; throws BadInput naming it when it cannot be read or holds no JSON object.
  explicit Configuration(const std::string& file);

  /// The object under a key; errors name its keys as KEY.NAME. Whether embeddings are tied it takes from here where it does not say it.
  /// Throws BadInput where there is none.
  [[nodiscard]] Configuration part(const std::string& key) const;

  [[nodiscard]] bool has(std::string_view key) const;     ///< with another value than null
  [[nodiscard]] bool absent(std::string_view key) const;  ///< not even with null, which may say that there is none
  /// A whole number above 0; throws BadInput naming file and key where it is missing or another value.
  [[nodiscard]] std::int64_t size(const std::string& key) const;
  [[nodiscard]] std::int64_t size(const std::string& key, std::int64_t otherwise) const;
  [[nodiscard]] std::int64_t count(const std::string& key, std::int64_t otherwise) const;  ///< 0 is allowed
  [[nodiscard]] double number(const std::string& key, double otherwise) const;
  [[nodiscard]] bool flag(const std::string& key, bool otherwise) const;
  [[nodiscard]] std::string text(const std::string& key, std::string_view otherwise) const;
  [[nodiscard]] std::vector<std::string> texts(const std::string& key) const;  ///< of a list; none where there is no such key
  [[nodiscard]] std::vector<std::int64_t> counts(
      const std::string& key) const;  ///< whole numbers of a list; none where there is no such key
  /// Numbers above 0 of a list, or the one that stands there; none where there is no such key.
  [[nodiscard]] std::vector<double> numbers(const std::string& key) const;
  [[nodiscard]] bool is_object(std::string_view key) const;
  [[nodiscard]] bool is_filled_list(std::string_view key) const;  ///< with something in it

  /// Throws BadInput naming a key that nobody asked for and that is nearly one which was asked for and is not there: a misspelt one would
  /// be taken for missing.
  void refuse_misspelt() const;

  /// Throws BadInput: what is said of a key of this file.
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;

 private:
  struct Values;
  Configuration(std::string file, std::string prefix, std::shared_ptr<const Values>);

  std::string file_, prefix_;
  std::shared_ptr<const Values> values_;
};

}  // namespace rehearsal::formats
