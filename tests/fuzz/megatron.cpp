// Any bytes are an index of Megatron's, beside nine tokens of two bytes.

#include <vector>

#include "exec/data/dataset_rows.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  static const fuzz::Scratch scratch;
  static const std::string tokens = scratch.write("c.bin", std::string(18, '\1'));
  const std::string index = scratch.write("c.idx", fuzz::text_of(data, size));
  const graph::TensorType type{DType::I64, {1, 4}};
  std::vector<exec::WantedTensor> wanted(2);
  wanted[0] = {.input = "input_ids", .type = type};
  wanted[1] = {.input = "target", .type = type, .target = true};
  return fuzz::taken_or_refused([&] {
    const auto set = exec::megatron_row().open({{{index}}, wanted, {}});
    std::vector<std::int64_t> row(4);
    for (std::int64_t n = 0; n < set->samples(); ++n)
      for (std::size_t which = 0; which < 2; ++which) (void)set->read({which, n, n}, row.data());
  });
}
