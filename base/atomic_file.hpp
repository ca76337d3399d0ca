#pragma once
#include <string>
#include <string_view>

namespace rehearsal {

/// Writes a whole file or leaves what was there: a temporary file beside it, flushed to the disk, then renamed. A symbolic link stays, and
/// its target is written; into what is_replaceable() says no of, bytes are written as they are.
/// Throws BadInput when the folder does not exist or `path` is a folder, EnvironmentFailure when writing fails (disk full, no
/// permission). Both name the file; the temporary one is gone in either case.
void write_file_atomically(const std::string& path, std::string_view bytes);

/// A file on a disk, or none yet: no device, no pipe, and not the standard output under any name.
[[nodiscard]] bool is_replaceable(const std::string& path);

/// Throws that BadInput now, for what is to be written after long work.
void require_place(const std::string& path);

}  // namespace rehearsal
