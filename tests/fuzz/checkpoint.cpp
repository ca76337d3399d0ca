// Any text is the manifest of a checkpoint, whose part has 64 bytes.

#include "exec/checkpoint/checkpoint.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rehearsal::fuzz::Scratch scratch;
  scratch.write("stage-0.bin", std::string(64, '\1'));
  scratch.write("manifest.json", rehearsal::fuzz::text_of(data, size));
  return rehearsal::fuzz::taken_or_refused([&] { (void)rehearsal::exec::read_checkpoint(scratch.folder()); });
}
