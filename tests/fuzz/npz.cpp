// Any bytes are an archive of arrays, and an array.

#include "exec/data/npz.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rehearsal::fuzz::Scratch scratch;
  const std::string bytes(rehearsal::fuzz::text_of(data, size));
  const std::string path = scratch.write("data.npz", bytes);
  (void)rehearsal::fuzz::taken_or_refused([&] { (void)rehearsal::exec::parse_npy(bytes, "input"); });
  return rehearsal::fuzz::taken_or_refused([&] { (void)rehearsal::exec::read_npz(path); });
}
