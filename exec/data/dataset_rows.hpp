#pragma once
// The kinds of data: one row each.

#include "exec/data/dataset.hpp"

namespace rehearsal::exec {

[[nodiscard]] DataKind npz_row();
[[nodiscard]] DataKind npy_row();
[[nodiscard]] DataKind tar_row();
[[nodiscard]] DataKind tokens_row();
[[nodiscard]] DataKind megatron_row();
[[nodiscard]] DataKind pairs_row();
[[nodiscard]] DataKind cityscapes_row();
[[nodiscard]] DataKind images_row();

/// In the order in which a path is offered to them: it is of the first kind that recognises it.
inline constexpr DataKind (*kDataKinds[])() = {npz_row, npy_row, tar_row, megatron_row, tokens_row, cityscapes_row, pairs_row, images_row};

}  // namespace rehearsal::exec
