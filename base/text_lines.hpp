#pragma once
// Files of text as people hand them over: some editors and spreadsheets begin them with a byte-order mark and end lines with CR LF.

#include <fstream>
#include <istream>
#include <string>
#include <string_view>

namespace rehearsal {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

[[nodiscard]] inline std::string without_byte_order_mark(std::string text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

/// Throws BadInput naming the file where it begins with the mark of UTF-16, which no text in UTF-8 has.
void refuse_utf16(std::string_view text, const std::string& file);

/// Throws BadInput naming the path where it is a folder, cannot be read, or is in UTF-16.
[[nodiscard]] std::ifstream open_text(const std::string& path);

/// Lines of a text from its beginning, without the mark and without what ends them.
class TextLines {
 public:
  explicit TextLines(std::istream& in) : in_(in) {}

  /// False at the end.
  bool next(std::string& line) {
    if (!std::getline(in_, line)) return false;
    if (++number_ == 1) line = without_byte_order_mark(std::move(line));
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }
  /// Of the line that was read last, from 1.
  [[nodiscard]] int number() const { return number_; }

 private:
  std::istream& in_;
  int number_ = 0;
};

}  // namespace rehearsal
