#pragma once
// How much training is asked about.

#include <cstdint>
#include <optional>

#include "graph/graph.hpp"

namespace CLI {
class App;
}

namespace rehearsal::cli {

/// How long the training is: one of the three; --steps are optimizer steps.
struct Extent {
  std::optional<std::int64_t> steps;
  std::optional<double> epochs, tokens;

  void add_to(CLI::App&);  ///< --steps, --epochs, --tokens
  [[nodiscard]] bool given() const { return steps || epochs || tokens; }
};
/// Optimizer steps of so many passes over the samples of an epoch, of which samples that were `seen` are behind: whole batches, as `run`
/// trains. What one pass leaves over is in the first batch of the next; what the last one leaves over is not trained on. Below 0 where more
/// were seen. Throws BadInput for more steps than can be counted.
[[nodiscard]] double steps_of_passes(double passes, double samples, std::int64_t batch, double seen = 0);
/// Steps of the extent; 1 when nothing is given. `samples`: of an epoch, where they are known. Throws BadInput for --epochs without them
/// or with fewer than a batch, and for --tokens when no input of the model is a sequence of tokens (samples by positions, of integers).
[[nodiscard]] double steps_of(const Extent&, std::optional<double> samples, std::int64_t batch, const graph::Graph& model);

}  // namespace rehearsal::cli
