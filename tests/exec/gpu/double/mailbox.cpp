#include "tests/exec/gpu/double/mailbox.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace rehearsal::exec::gpu_double {

std::filesystem::path Mailbox::make_folder() {
  auto pattern = (std::filesystem::temp_directory_path() / "gpu-double-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return pattern;
}

void Mailbox::put(const std::string& name, const std::string& bytes) const {
  const auto unfinished = folder_ / (name + ".unfinished");
  std::ofstream(unfinished, std::ios::binary) << bytes;
  std::filesystem::rename(unfinished, folder_ / name);
}

std::string Mailbox::get(const std::string& name) const {
  std::ifstream in(folder_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void Mailbox::remove(const std::string& name) const {
  std::error_code ignored;
  std::filesystem::remove(folder_ / name, ignored);
}

void Mailbox::remove_all() const {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace rehearsal::exec::gpu_double
