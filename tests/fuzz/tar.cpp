// Any bytes are an archive of samples.

#include "exec/data/tar_index.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rehearsal::fuzz::Scratch scratch;
  const rehearsal::exec::StoredFile file(scratch.write("shard.tar", rehearsal::fuzz::text_of(data, size)));
  return rehearsal::fuzz::taken_or_refused([&] {
    for (const auto& member : rehearsal::exec::tar_members(file))
      if (member.offset < 0 || member.size < 0 || member.size > file.size() - member.offset) std::abort();  // outside of the archive
  });
}
