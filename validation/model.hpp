#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "graph/adapters.hpp"
#include "validation/record.hpp"

namespace rehearsal::validation {

/// The model of a record in the words of the zoo.
struct RecordModel {
  std::string zoo;                                ///< row of the zoo
  std::map<std::string, std::int64_t> values;     ///< its parameters, without batch
  bool sequence = false;                          ///< samples are token sequences
  bool encoder = false;                           ///< BERT: its recipes pack sequences
  double seq = 0;                                 ///< tokens of a sample as the record counts them
  double epoch_samples = 0;                       ///< of the data set the model is usually trained on; 0: unknown
  std::optional<graph::AdapterOptions> adapters;  ///< LoRA
  bool translation = false;                       ///< its batches count tokens
  bool shape_assumed = false;  ///< layers and width are those usual for the number of parameters, or the sequence length is
  bool block_alone = false;    ///< one block, without embedding, loss and update
};

/// Throws Refusal naming the key that is missing, or the model that has no generator.
[[nodiscard]] RecordModel model_of(const Record&);
/// "zoo:NAME?key=value&...", only parameters that the zoo's row takes.
[[nodiscard]] std::string zoo_reference(const RecordModel&);

}  // namespace rehearsal::validation
