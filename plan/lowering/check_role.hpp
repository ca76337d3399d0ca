#pragma once
// Holds a role to what every pass of lowering must leave true.

#include <string_view>

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Indices of instructions point to what is there; a buffer that is part of another lies within it; what an instruction waits for is on
/// another stream, and before it where both are in one body; what is read was written before, or is stored; slots name bodies, and every
/// body that does something has one; places lie within the arena. The last two where slots and places have been set.
/// Throws InternalError naming the pass, the instruction and the buffer.
void check_role(const Role&, std::string_view after_pass);

}  // namespace rehearsal::plan
