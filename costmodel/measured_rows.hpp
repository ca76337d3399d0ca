#pragma once
// Files of rows that scripts distil from measured kernels: {"rows": [{"generation": …, numbers and words}, …]}.

#include <map>
#include <string>
#include <vector>

namespace rehearsal::costmodel {

/// One row; what is neither a number nor a word (errors of held-out devices) is for readers of the file.
class MeasuredRow {
 public:
  MeasuredRow(std::string where, std::map<std::string, std::string> words, std::map<std::string, double> numbers)
      : where_(std::move(where)), words_(std::move(words)), numbers_(std::move(numbers)) {}

  [[nodiscard]] bool has(const std::string& number) const { return numbers_.contains(number); }
  /// Throws BadInput naming the file, the key and the generation when there is no such word.
  [[nodiscard]] const std::string& word(const std::string& key) const;
  /// The same of a number, which must be from `low` to `high`.
  [[nodiscard]] double number(const std::string& key, double low, double high) const;

 private:
  std::string where_;
  std::map<std::string, std::string> words_;
  std::map<std::string, double> numbers_;
};

/// Throws BadInput naming `where` when the text is no JSON of that form.
[[nodiscard]] std::vector<MeasuredRow> measured_rows(const std::string& text, const std::string& where);

}  // namespace rehearsal::costmodel
