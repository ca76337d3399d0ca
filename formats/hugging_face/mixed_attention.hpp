#pragma once
// Readers of models whose layers mix tokens in more than one way: windows with heads of their own, linear attention, blocks that an index
// chooses.

#include "formats/hugging_face/reading.hpp"

namespace rehearsal::formats {

void read_qwen3_next(const Configuration&, ZooValues&);
void read_qwen3_5(const Configuration&, ZooValues&);
void read_qwen3_5_moe(const Configuration&, ZooValues&);
void read_gemma4(const Configuration&, ZooValues&);
void read_mimo_v2_flash(const Configuration&, ZooValues&);
void read_step3(const Configuration&, ZooValues&);
void read_deepseek_v4(const Configuration&, ZooValues&);
void read_minimax_m3(const Configuration&, ZooValues&);

}  // namespace rehearsal::formats
