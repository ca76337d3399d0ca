#pragma once
// What two ranks do to gradients, done here with one rank for each half of the batch: for tests of what travels between them.

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "exec/host/cpu_backend.hpp"
#include "exec/play/executor.hpp"
#include "tests/catch.hpp"
#include "tests/exec/executor/models.hpp"
#include "tests/process.hpp"

namespace rehearsal::exec::sample {

using Values = std::map<std::string, std::vector<double>>;

/// One rank that trains alone, on half of the samples or on all.
class Alone {
 public:
  Alone(Communicator& world, const Case& c)
      : training_(training_of(c)),
        program_(program_of(c, training_)),
        backend_(backend_of(c)),
        executor_({program_, training_, world}, backend_, {}) {}

  double step(std::int64_t step, DataSource& data) { return executor_.step(step, data).loss; }
  [[nodiscard]] Values weights() {
    Values values;
    for (const auto& p : training_.parameters) {
      const auto block = executor_.stored(p.value);
      const auto* first = reinterpret_cast<const double*>(block.data());
      values[training_.graph[p.value].name].assign(first, first + block.size() / sizeof(double));
    }
    return values;
  }
  void set_weights(const Values& values) {
    for (const auto& p : training_.parameters)
      executor_.set_stored(p.value, std::as_bytes(std::span(values.at(training_.graph[p.value].name))));
  }
  [[nodiscard]] const graph::TrainingGraph& training() const { return training_; }

 private:
  graph::TrainingGraph training_;
  plan::Program program_;
  CpuBackend backend_;
  Executor executor_;
};

/// The second half of a batch, or the first.
class Half final : public DataSource {
 public:
  Half(DataSource& all, std::int64_t first) : all_(all), first_(first) {}
  void read(const SampleRequest& r, void* out) override { all_.read({r.input, r.type, r.first + first_, r.count}, out); }
  [[nodiscard]] std::int64_t samples() const override { return 0; }

 private:
  DataSource& all_;
  std::int64_t first_;
};

constexpr double kRate = 0.05;  ///< of training_of()

/// What train_plans prints of each case, `how` are its first arguments.
inline std::map<std::string, std::vector<double>> printed_of(const std::vector<Case>& cases, int ranks, const std::string& how) {
  std::string command = REHEARSAL_MPIRUN " -n " + std::to_string(ranks) + " \"" REHEARSAL_TRAIN_PLANS "\" " + how;
  for (const auto& c : cases) command += " '" + to_text(c) + "'";
  const auto ended = run_shell(command);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  std::map<std::string, std::vector<double>> printed;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string text;
    words >> text;
    for (double number; words >> number;) printed[text].push_back(number);
  }
  return printed;
}

}  // namespace rehearsal::exec::sample
