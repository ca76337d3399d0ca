// Any bytes are a model.

#include "formats/onnx/model_import.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rehearsal::fuzz::Scratch scratch;
  const std::string path = scratch.write("model.onnx", rehearsal::fuzz::text_of(data, size));
  return rehearsal::fuzz::taken_or_refused([&] {
    rehearsal::formats::ImportOptions options;
    options.batch = 2;
    options.collect_unknown = true;
    (void)rehearsal::formats::import_onnx(path, options);
  });
}
