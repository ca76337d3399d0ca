#pragma once
// Which architectures are read, and how their keys are those of the zoo.

#include <span>
#include <string_view>

#include "formats/hugging_face/configuration.hpp"
#include "graph/zoo/zoo.hpp"

namespace rehearsal::formats {

using graph::zoo::ZooValues;

struct Architecture {
  std::string_view type;  ///< model_type
  std::string_view zoo;   ///< row of the zoo
  void (*read)(const Configuration&, ZooValues&);
  std::string_view mixture_flag = {};  ///< the key that makes it a row of moe instead
  std::int64_t positions = 1 << 17;    ///< where the file does not say how many there are; as here: more than a usual sample has tokens
};

[[nodiscard]] std::span<const Architecture> architectures();

}  // namespace rehearsal::formats
