#pragma once
// What a tar archive holds, and where (POSIX.1-1988 ustar, POSIX.1-2001 pax, and GNU's long names).

#include <cstdint>
#include <string>
#include <vector>

#include "exec/data/stored_file.hpp"

namespace rehearsal::exec {

struct TarMember {
  std::string name;
  std::int64_t offset = 0, size = 0;  ///< of its bytes in the archive
};

/// Plain files, in the order of the archive; nothing is unpacked. Throws BadInput naming the archive when it is damaged, truncated (an
/// archive ends in two blocks of zeros), compressed, or names a file outside the folder that it is unpacked in.
[[nodiscard]] std::vector<TarMember> tar_members(const StoredFile&);

}  // namespace rehearsal::exec
