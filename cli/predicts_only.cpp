// In place of the files that need the room exec, in builds without it (REHEARSAL_EXECUTION=OFF).

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/on_this_machine.hpp"
#include "cli/run_values.hpp"
#include "costmodel/calibration.hpp"
#include "graph/ops/tiled_convolution.hpp"

namespace rehearsal::cli {
namespace {

[[nodiscard]] EnvironmentFailure lacking(const std::string& what) {
  return EnvironmentFailure(what +
                            ": this build of Rehearsal predicts only, without kernels, data and MPI (REHEARSAL_EXECUTION=OFF); "
                            "its Debian package and scripts/build make one with them");
}

/// A command that has to compute: whatever it is told, it cannot.
Action refused(CLI::App& app) {
  app.allow_extras();
  return [name = app.get_name()](Terminal&) -> int { throw lacking(name); };
}

/// A CPU whose kernels are unknown: lowered as on one whose kernels take every layout and need no memory of their own.
class UnknownCpu final : public plan::Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return table_.name(); }
  /// Convolutions that a CPU computes by tiles are costed so.
  [[nodiscard]] plan::KernelOffer offer(const plan::LocalNode& node) const override {
    auto offer = table_.offer(node);
    std::string reason;
    const auto view = node.view();
    if (node.outputs[0] && view.output().dtype == DType::F32 && graph::is_quicker_by_tiles(node.schema, view, reason))
      offer.implementation += costmodel::kTiledKernels;
    return offer;
  }
  [[nodiscard]] bool reorders(const graph::TensorType& type, plan::Format from, plan::Format to) const override {
    return table_.reorders(type, from, to);
  }
  [[nodiscard]] bool fuses_attention() const override { return true; }  // as on every CPU
  [[nodiscard]] bool plans_arrivals() const override { return true; }

 private:
  plan::TableBackend table_;
};

}  // namespace

CpuKernels cpu_kernels(const std::string& machine) {
  if (!machine.empty()) throw lacking("--machine " + machine + ": its measurements are of kernels on CPUs");
  return {std::make_unique<UnknownCpu>(),
          "this build predicts only and does not know the kernels of CPUs: changes of layout and their scratch memory are left out"};
}

std::unique_ptr<plan::Backend> kernels_of(const KernelsWanted&, std::vector<std::string>&) { throw lacking("--kernels"); }
int threads_here() { return 1; }
std::string kernels_here_names() { return "none in this build, which predicts only"; }

predict::DatasetFacts facts_of(const DataFlags& flags, const ModelOptions&) { throw lacking("--data " + flags.data.front()); }

std::optional<int> reading_threads(const DataFlags& flags) {
  return flags.threads ? std::optional(flags.checked_threads(0)) : std::nullopt;
}

void require_run_values(const std::string&, const std::vector<std::string>&) {}

Action add_run(CLI::App& app) { return refused(app); }
Action add_calibrate(CLI::App& app) { return refused(app); }
Action add_evaluate(CLI::App& app) { return refused(app); }
Action add_bench(CLI::App& app) { return refused(app); }
Action add_conformance(CLI::App& app) { return refused(app); }

}  // namespace rehearsal::cli
