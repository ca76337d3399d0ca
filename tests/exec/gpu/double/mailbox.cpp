#include "tests/exec/gpu/double/mailbox.hpp"

#include <unistd.h>

#include <fstream>
#include <iterator>

namespace rehearsal::exec::gpu_double {

std::filesystem::path Mailbox::make_folder() {
  static int made = 0;
  const auto folder = std::filesystem::temp_directory_path() / ("gpu-double-" + std::to_string(::getpid()) + "-" + std::to_string(made++));
  std::filesystem::remove_all(folder);  // of a process that had this number before
  std::filesystem::create_directory(folder);
  return folder;
}

void Mailbox::put(const std::string& name, const std::string& bytes) const {
  const auto unfinished = folder_ / (name + ".unfinished");
  std::ofstream(unfinished, std::ios::binary) << bytes;
  std::error_code failure;
  std::filesystem::rename(unfinished, folder_ / name, failure);
  // A rank that gave up has cleared the folder: nobody waits for this any more.
  if (failure && std::filesystem::exists(folder_))
    throw std::filesystem::filesystem_error("a message of the double of NCCL", folder_ / name, failure);
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
