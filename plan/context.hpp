#pragma once
// What a plan or a Program was made for, as their files keep it under "context".

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace rehearsal::plan {

/// Options of a command, without dashes, each with the texts that it was given.
using Words = std::map<std::string, std::vector<std::string>>;

/// A stored plan refuses to run on anything else.
struct PlanContext {
  std::string model;       ///< file or zoo: reference as given
  std::string model_hash;  ///< Graph::hash() of the training graph
  std::int64_t batch = 0;  ///< global samples of one optimizer step
  std::string loss;
  std::string dtype = "f32";   ///< a row of arithmetic_rows()
  std::string optimizer = {};  ///< as --optimizer takes it; empty where the file does not say
  Words training = {};         ///< further options that say what is trained, and how: lora, freeze, clip-norm ...
  Words searched_on = {};      ///< options that say where it was searched, and as what: platform, nodes, framework, recipe ...
};

/// Throws BadInput naming `path` and the key.
[[nodiscard]] PlanContext read_context(const nlohmann::json&, const std::string& path);
[[nodiscard]] nlohmann::ordered_json context_json(const PlanContext&);

}  // namespace rehearsal::plan
