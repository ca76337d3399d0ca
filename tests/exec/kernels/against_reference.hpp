#pragma once
// One node by the kernel that the backend offers, held against the reference kernel, with no more workspace than it asked for.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_schema.hpp"
#include "plan/format.hpp"

namespace rehearsal::exec {

struct Case {
  std::string op;
  graph::Attributes attributes;
  std::vector<graph::Shape> shapes;    ///< of operands
  std::vector<DType> types = {};       ///< default f32; Count: an absent operand
  std::vector<double> constants = {};  ///< operand i is constant where not 0: counts, labels
};

/// Runs the kernel that the backend offers when images are in order `now`, or the one of this name, and compares it with the reference.
/// Returns the implementation. Those of a second oneDNN that would do are compared, too.
std::string compared(const Case& c, plan::Format now, int threads = 1, std::string_view by = {});

/// True where the kernel that the backend offers for channels-last images leaves the same bits with each of these numbers of threads.
bool alike_on_threads(const Case& c, std::initializer_list<int> threads);

/// The same case in 16 bits.
Case in_type(Case c, DType narrow);

/// In f32 by the implementation `wants`; in 16 bits by the same, by tiles of bf16, or by it on widened operands where it
/// has no kernel for them.
void check(const Case& c, plan::Format now, std::string_view wants, int threads = 1);

}  // namespace rehearsal::exec
