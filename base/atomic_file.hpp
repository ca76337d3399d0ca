#pragma once
#include <string>
#include <string_view>

namespace rehearsal {

/// Writes a whole file or leaves what was there: a temporary file beside it, flushed to the disk, then renamed.
/// Throws BadInput when the folder does not exist or `path` is a folder, EnvironmentFailure when writing fails (disk full, no
/// permission). Both name the file; the temporary one is gone in either case.
void write_file_atomically(const std::string& path, std::string_view bytes);

/// Throws that BadInput now, for what is to be written after long work.
void require_place(const std::string& path);

}  // namespace rehearsal
