#pragma once
// The families of import rows, one beside this file each.

#include <span>

#include "formats/onnx/import_row.hpp"
#include "formats/onnx/node_import.hpp"

namespace rehearsal::formats {

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

inline constexpr std::span<const ImportRow> (*kImportFamilies[])() = {
    attention_rows, constant_rows, control_rows,   convolution_rows,   elementwise_rows,  gather_rows,    loss_rows,
    matrix_rows,    movement_rows, optimizer_rows, normalization_rows, quantization_rows, recurrent_rows, reduction_rows,
    resize_rows,    sampling_rows, selection_rows, sequence_rows,      shape_rows,        signal_rows,    stateful_rows};

}  // namespace rehearsal::formats
