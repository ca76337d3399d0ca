#pragma once
// From the element types of files to those of a model.

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"

namespace rehearsal::exec {

using Converter = void (*)(const std::byte* from, std::byte* to, std::int64_t count);
/// nullptr where it is not done: fractions to whole numbers, numbers to truth values.
[[nodiscard]] Converter converter(DType from, DType to);

}  // namespace rehearsal::exec
