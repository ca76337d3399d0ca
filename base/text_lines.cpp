#include "base/text_lines.hpp"

#include <filesystem>

#include "base/error.hpp"

namespace rehearsal {

void refuse_utf16(std::string_view text, const std::string& file) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) throw BadInput(file, "is in UTF-16; save it as UTF-8");
}

std::ifstream open_text(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw BadInput(path, "is a folder; name a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path, "cannot be read");
  // One character, which a pipe can take back; neither is ever a part of UTF-8.
  if (const int first = in.peek(); first == 0xFE || first == 0xFF) refuse_utf16(first == 0xFF ? "\xFF\xFE" : "\xFE\xFF", path);
  return in;
}

}  // namespace rehearsal
