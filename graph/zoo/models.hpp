#pragma once
// One function per file of this folder; rows of the table in zoo.cpp.

#include "graph/zoo/zoo.hpp"

namespace rehearsal::graph::zoo {

[[nodiscard]] std::span<const ZooRow> resnets();
[[nodiscard]] std::span<const ZooRow> vggs();
[[nodiscard]] std::span<const ZooRow> unets();
[[nodiscard]] std::span<const ZooRow> transformers();

}  // namespace rehearsal::graph::zoo
