// libFuzzer target: any bytes are a model or a message. Run by hand:
//   cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DREHEARSAL_FUZZ=ON && ninja -C build/fuzz onnx_fuzz
//   build/fuzz/tests/fuzz/onnx_fuzz -max_total_time=60 -max_len=4096 corpus/

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "formats/onnx/import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = "/dev/shm/rehearsal_fuzz_" + std::to_string(::getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  rehearsal::formats::ImportOptions options;
  options.batch = 2;
  options.collect_unknown = true;
  try {
    (void)rehearsal::formats::import_onnx(path, options);
  } catch (const rehearsal::Error& error) {
    if (error.status() == rehearsal::ExitStatus::Internal) __builtin_trap();
  }
  return 0;
}
