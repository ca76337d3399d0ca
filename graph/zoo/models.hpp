#pragma once
// The families of the zoo: a file of this folder each.

#include "graph/zoo/zoo.hpp"

namespace rehearsal::graph::zoo {

using ZooFamily = std::span<const ZooRow>();
ZooFamily resnets, vggs, classic_networks, inceptions, densenets, mobile_networks, separable_networks, regular_networks, searched_networks,
    evolved_networks, modern_networks, vision_transformers, window_transformers, mixers, segmenters, stacked_unets, detectors, transformers,
    decoders, compressed_decoders, hybrids, encoders, encoder_decoders, recurrent_transformers, translators, denoisers, recommenders;

/// In the order of zoo_table().
inline constexpr ZooFamily* kFamilies[] = {resnets,
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
