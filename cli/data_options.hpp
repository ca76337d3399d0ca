#pragma once
// The options by which commands name data.

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rehearsal::exec {
struct DataOptions;
}

namespace rehearsal::cli {

struct DataFlags {
  std::vector<std::string> data = {"synthetic"};
  std::vector<std::string> inputs;
  std::string shuffle = "on", image_size, augment, normalize;
  std::optional<int> threads;

  void add_to(CLI::App&);          ///< what a training takes
  void add_reading_to(CLI::App&);  ///< without --data, --shuffle and --augment
  /// What --data-threads says, or this. Throws BadInput.
  [[nodiscard]] int checked_threads(int otherwise) const;
  /// Throws BadInput naming the option. `threads`: where --data-threads does not say how many.
  [[nodiscard]] exec::DataOptions options(std::uint64_t seed, int threads) const;
};

/// The same arrays and sizes of other data: in order, with nothing left to chance.
[[nodiscard]] exec::DataOptions evaluated(exec::DataOptions, std::vector<std::string> sources);

}  // namespace rehearsal::cli
