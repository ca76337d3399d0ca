#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/terminal.hpp"
#include "graph/graph.hpp"
#include "predict/predictor.hpp"

namespace CLI {
class App;
}

namespace rehearsal::cli {

/// How much training is asked about: steps of the batch.
struct Extent {
  std::optional<std::int64_t> steps;
  std::optional<double> epochs, tokens;
  std::optional<std::int64_t> dataset;  ///< samples of an epoch

  void add_to(CLI::App&);  ///< --steps, --epochs, --dataset, --tokens
};
/// Positions of the longest sequence of tokens that the model reads; 0 when it reads none.
[[nodiscard]] std::int64_t tokens_per_sample(const graph::Graph& model);
/// Steps of the extent; 1 when nothing is given. Throws BadInput for --epochs without --dataset, and for --tokens when no input of the
/// model is a sequence of tokens (samples by positions, of integers).
[[nodiscard]] double steps_of(const Extent&, std::int64_t batch, const graph::Graph& model);

[[nodiscard]] nlohmann::ordered_json interval_json(double value, double log_error);
[[nodiscard]] nlohmann::ordered_json to_json(const costmodel::Interval&);
/// The keys of `estimate` (docs/cli.md).
[[nodiscard]] nlohmann::ordered_json to_json(const predict::Assessment&, double steps);
/// Prints the result for one plan. Throws Refusal after that when the plan does not fit into memory; `remedy` says what would.
void print_for_plan(Terminal&, nlohmann::ordered_json result, const predict::Assessment&, const std::string& remedy = {});
/// What of a plan that does not fit is best changed, by the closed form; empty for one that fits.
[[nodiscard]] std::string remedy_of(predict::Predictor&, const predict::Assessment&);

}  // namespace rehearsal::cli
