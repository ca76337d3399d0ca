#pragma once
// Holds a Program to the rule that nobody sees fail until a message is slow: memory is written only when every message from it has left,
// read only when every message into it has arrived, and no two ranks wait for each other.

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Plays the Program on one rank of every stage, steps that follow each other included, with messages that are as slow as can be: each is
/// under way until its rank waits for it (plan/memory/under_way.hpp), and neither end is done before the other has begun.
/// Throws InternalError naming stage, instruction, buffer and message.
void check_messages(const Program&);

}  // namespace rehearsal::plan
