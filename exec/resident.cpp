#include "exec/resident.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace rehearsal::exec {
namespace {

struct Mapping {
  std::uintptr_t begin = 0, end = 0;
};

/// A line such as "7f0a10000000-7f0a10021000 r-xp 00000000 08:01 1234   /usr/lib/libm.so.6": of a file that nobody may write through it.
std::optional<Mapping> unwritable_file(const std::string& line) {
  std::istringstream words(line);
  std::string range, rights, offset, device, inode, path;
  words >> range >> rights >> offset >> device >> inode >> path;
  const auto dash = range.find('-');
  if (dash == std::string::npos || rights.size() != 4 || rights[1] != '-' || rights[3] != 'p' || path.empty() || path.front() != '/')
    return std::nullopt;
  if (line.find("(deleted)") != std::string::npos) return std::nullopt;
  return Mapping{std::stoul(range.substr(0, dash), nullptr, 16), std::stoul(range.substr(dash + 1), nullptr, 16)};
}

/// Mappings all of whose pages are as they are in their files: none was written, as relocations are, before writing was forbidden.
std::vector<Mapping> unchanged_files() {
  std::vector<Mapping> found;
  std::optional<Mapping> open;
  std::ifstream in("/proc/self/smaps");
  for (std::string line; std::getline(in, line);) {
    if (const auto colon = line.find(':'); colon == std::string::npos || line.find('-') < colon) {
      open = unwritable_file(line);
    } else if (open && line.starts_with("Anonymous:")) {
      if (std::stol(line.substr(colon + 1)) == 0) found.push_back(*open);
      open.reset();
    }
  }
  return found;
}

}  // namespace

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void give_back_idle_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses that the kernel tells
  for (const auto& m : unchanged_files()) madvise(reinterpret_cast<void*>(m.begin), m.end - m.begin, MADV_DONTNEED);
}

}  // namespace rehearsal::exec
