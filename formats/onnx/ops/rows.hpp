#pragma once
// How operators of a file become nodes of a graph. A row per operator and range of versions; each file beside this one
// contributes a family. To add an operator or a version: one row.

#include <limits>
#include <span>

#include "formats/onnx/node_import.hpp"

namespace rehearsal::formats {

inline constexpr std::string_view kDefaultDomain;  ///< written "" or "ai.onnx"
inline constexpr std::string_view kMicrosoft = "com.microsoft";
inline constexpr std::int64_t kNewest = std::numeric_limits<std::int64_t>::max();

struct ImportRow {
  std::string_view domain, op;
  std::int64_t since, until;  ///< opset versions, both included
  void (*import)(NodeImport&);
};

/// nullptr when the operator has no row for this version.
[[nodiscard]] const ImportRow* find_import_row(std::string_view domain, std::string_view op, std::int64_t version);

[[nodiscard]] std::span<const ImportRow> attention_rows();
[[nodiscard]] std::span<const ImportRow> constant_rows();
[[nodiscard]] std::span<const ImportRow> control_rows();
[[nodiscard]] std::span<const ImportRow> convolution_rows();
[[nodiscard]] std::span<const ImportRow> elementwise_rows();
[[nodiscard]] std::span<const ImportRow> gather_rows();
[[nodiscard]] std::span<const ImportRow> loss_rows();
[[nodiscard]] std::span<const ImportRow> matrix_rows();
[[nodiscard]] std::span<const ImportRow> movement_rows();
[[nodiscard]] std::span<const ImportRow> normalization_rows();
[[nodiscard]] std::span<const ImportRow> optimizer_rows();
[[nodiscard]] std::span<const ImportRow> quantization_rows();
[[nodiscard]] std::span<const ImportRow> recurrent_rows();
[[nodiscard]] std::span<const ImportRow> reduction_rows();
[[nodiscard]] std::span<const ImportRow> resize_rows();
[[nodiscard]] std::span<const ImportRow> sampling_rows();
[[nodiscard]] std::span<const ImportRow> selection_rows();
[[nodiscard]] std::span<const ImportRow> sequence_rows();
[[nodiscard]] std::span<const ImportRow> shape_rows();
[[nodiscard]] std::span<const ImportRow> signal_rows();
[[nodiscard]] std::span<const ImportRow> stateful_rows();

}  // namespace rehearsal::formats
