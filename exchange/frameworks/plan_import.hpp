#pragma once
// Configurations of other frameworks as model, plan and training of ours: what plan_export.hpp writes, and what users have.

#include <optional>
#include <string>
#include <vector>

#include "exchange/frameworks/plan_export.hpp"

namespace rehearsal::exchange {

/// A key of a configuration that changes nothing here, and why.
struct LeftOut {
  std::string key, reason;
};

struct ImportedJob {
  std::string framework;  ///< "megatron-core": the profile that predicts it
  TrainingJob job;        ///< model: "zoo:NAME?...", of what differs from the row's own values; optimizer: only values that were given
  std::vector<LeftOut> left_out;
};

/// Whether a text has flags of Megatron-LM.
[[nodiscard]] bool is_megatron(const std::string& text);
/// Flags of Megatron-LM's pretrain_gpt.py: a file of flags, a shell script with them, or YAML. `ranks`: how many take part, where no
/// torchrun in the text says it. Throws BadInput naming file and flag where a value is missing or wrong, and Refusal with a line for every
/// flag that is not known or asks for what no plan or model of ours says.
[[nodiscard]] ImportedJob imported_megatron(const std::string& text, const std::string& file, std::optional<int> ranks);

/// Whether a text is a configuration of torchtitan.
[[nodiscard]] bool is_torchtitan(const std::string& text);
/// A TOML file of torchtitan's releases up to 0.2, or a module of Python as export writes it for 0.3. `ranks`: needed where the shards of
/// data parallelism are all that are left (-1). Throws as imported_megatron().
[[nodiscard]] ImportedJob imported_torchtitan(const std::string& text, const std::string& file, std::optional<int> ranks);

}  // namespace rehearsal::exchange
