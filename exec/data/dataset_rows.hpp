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

}  // namespace rehearsal::exec
