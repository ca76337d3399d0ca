#include <array>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {

const ImportRow* find_import_row(std::string_view domain, std::string_view op, std::int64_t version) {
  const std::string_view wanted = domain == "ai.onnx" ? kDefaultDomain : domain;
  const std::array families = {
      attention_rows(), constant_rows(), control_rows(),   convolution_rows(),   elementwise_rows(),  gather_rows(),    loss_rows(),
      matrix_rows(),    movement_rows(), optimizer_rows(), normalization_rows(), quantization_rows(), recurrent_rows(), reduction_rows(),
      resize_rows(),    sampling_rows(), selection_rows(), sequence_rows(),      shape_rows(),        signal_rows(),    stateful_rows()};
  for (const auto& family : families) {
    for (const ImportRow& row : family) {
      if (row.op == op && row.domain == wanted && row.since <= version && version <= row.until) return &row;
    }
  }
  return nullptr;
}

}  // namespace rehearsal::formats
