#pragma once
// The families of the zoo: a file of this folder each.

#include "graph/zoo/zoo.hpp"

namespace rehearsal::graph::zoo {

[[nodiscard]] std::span<const ZooRow> resnets();
[[nodiscard]] std::span<const ZooRow> vggs();
[[nodiscard]] std::span<const ZooRow> unets();
[[nodiscard]] std::span<const ZooRow> transformers();
[[nodiscard]] std::span<const ZooRow> decoders();
[[nodiscard]] std::span<const ZooRow> compressed_decoders();
[[nodiscard]] std::span<const ZooRow> hybrids();
[[nodiscard]] std::span<const ZooRow> encoders();
[[nodiscard]] std::span<const ZooRow> encoder_decoders();
[[nodiscard]] std::span<const ZooRow> classic_networks();
[[nodiscard]] std::span<const ZooRow> inceptions();
[[nodiscard]] std::span<const ZooRow> densenets();
[[nodiscard]] std::span<const ZooRow> mobile_networks();
[[nodiscard]] std::span<const ZooRow> vision_transformers();
[[nodiscard]] std::span<const ZooRow> segmenters();
[[nodiscard]] std::span<const ZooRow> detectors();
[[nodiscard]] std::span<const ZooRow> denoisers();
[[nodiscard]] std::span<const ZooRow> recommenders();
[[nodiscard]] std::span<const ZooRow> recurrent_transformers();
[[nodiscard]] std::span<const ZooRow> translators();
[[nodiscard]] std::span<const ZooRow> evolved_networks();
[[nodiscard]] std::span<const ZooRow> searched_networks();
[[nodiscard]] std::span<const ZooRow> separable_networks();
[[nodiscard]] std::span<const ZooRow> regular_networks();
[[nodiscard]] std::span<const ZooRow> modern_networks();
[[nodiscard]] std::span<const ZooRow> window_transformers();
[[nodiscard]] std::span<const ZooRow> mixers();
[[nodiscard]] std::span<const ZooRow> stacked_unets();

/// In the order of zoo_table().
inline constexpr std::span<const ZooRow> (*kFamilies[])() = {resnets,
                                                             vggs,
                                                             classic_networks,
                                                             inceptions,
                                                             densenets,
                                                             mobile_networks,
                                                             separable_networks,
                                                             regular_networks,
                                                             searched_networks,
                                                             evolved_networks,
                                                             modern_networks,
                                                             vision_transformers,
                                                             window_transformers,
                                                             mixers,
                                                             unets,
                                                             segmenters,
                                                             stacked_unets,
                                                             detectors,
                                                             transformers,
                                                             decoders,
                                                             compressed_decoders,
                                                             hybrids,
                                                             encoders,
                                                             encoder_decoders,
                                                             recurrent_transformers,
                                                             translators,
                                                             denoisers,
                                                             recommenders};

}  // namespace rehearsal::graph::zoo
