#pragma once
// The options of `rehearse run`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/data_options.hpp"
#include "cli/model_options.hpp"
#include "exec/trainer.hpp"

namespace rehearsal::cli {

struct RunOptions {
  ModelOptions model;
  DataFlags data;
  std::vector<std::string> eval;
  std::string plan, machine, backend = "auto", metrics, trace, checkpoint, resume, trained, on_nan = "stop";
  std::optional<std::int64_t> steps;
  std::optional<double> epochs;
  std::string schedule = "constant";
  std::string checkpoint_every;
  int keep = 1;
  bool keep_best = false, go_on = false, measure_kernels = false;
  std::int64_t warmup = 0, log_every = 0, eval_every = 0, stop_after = 0;

  void add_to(CLI::App&);
  /// `run plan.json`: the plan file names the model, and how it is trained where the options do not.
  void take_plan();
  /// Throws what is wrong with them by themselves: not with files, nor with the model.
  void check_values() const;
  /// --backend, or what stands for it: f64 has kernels of the reference alone on the host.
  [[nodiscard]] std::string kernels() const;
};

[[nodiscard]] exec::OnNan on_nan_of(const std::string& text);
[[nodiscard]] exec::SavingOptions saving_options(const RunOptions&);

}  // namespace rehearsal::cli
