#include "base/text_lines.hpp"

#include <filesystem>

#include "base/error.hpp"

namespace rehearsal {

std::ifstream open_text(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw BadInput(path, "is a folder; name a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path, "cannot be read");
  return in;
}

}  // namespace rehearsal
