#pragma once
// A training as a launcher starts it: so many ranks on so many nodes, for so long.

#include <optional>
#include <string>
#include <vector>

#include "cli/model_options.hpp"
#include "plan/plan.hpp"

namespace rehearsal::cli {

/// Options of `run` that a launcher has to know.
struct RunWords {
  ModelOptions model;
  std::optional<std::int64_t> steps;
  std::optional<double> epochs;
  std::string checkpoint, resume, plan;
  std::optional<std::string> backend;
  bool goes_on = false;  ///< --continue
};

/// Of a job that mpirun starts at once.
struct Host {
  std::string name;
  int slots = 1;
};

struct NodeRanks {
  std::string device;  ///< what one rank has: "A100-SXM4-80GB"
  int ranks = 1, cores_per_rank = 1;
  friend bool operator==(const NodeRanks&, const NodeRanks&) = default;
};
struct EqualNodes {
  long long count = 0;
  NodeRanks node;
};
/// Neighbours that are alike, counted together.
[[nodiscard]] std::vector<EqualNodes> equal_nodes(const std::vector<NodeRanks>&);

struct LaunchJob {
  std::string plan_file;
  plan::PlanFile plan;
  std::vector<std::string> options;  ///< of run, as they were given
  RunWords words;
  std::vector<Host> hosts;       ///< empty: this machine
  bool on_gpus = false;          ///< every rank has one
  std::vector<NodeRanks> nodes;  ///< which the ranks fill in this order; empty: not known
  double longest_seconds = 0;    ///< upper bound of the estimate, with what it takes to start and to save; 0: unknown
  double step_seconds = 0;       ///< the same of one step
  double save_seconds = 0;       ///< of writing a checkpoint
  std::string image, volume;     ///< of containers
};

/// The words behind the launcher: program, run, plan, options; and --continue where a checkpoint is to go on with.
[[nodiscard]] std::vector<std::string> command_of(const LaunchJob&, const std::string& program);
/// Whole seconds that ranks have between the word to end and being killed: two steps and two checkpoints, one of which may be under way.
/// Ranks on other nodes than a lost one still end within 10 s where both are short.
[[nodiscard]] long long patience_of(const LaunchJob&);
/// The same with what a queue needs to pass the word on; two minutes at least.
[[nodiscard]] long long notice_of(const LaunchJob&);
/// mpirun and its options, but for the hosts. When it is told to end, and when a rank has failed, it waits for the whole patience before it
/// kills the ranks that are still there and ends itself (Open MPI's own: a second).
[[nodiscard]] std::vector<std::string> mpirun_words(const LaunchJob&, long long patience);
/// As words of a POSIX shell.
[[nodiscard]] std::string quoted(const std::vector<std::string>& words);

/// Each writes a script or manifest that works as it is printed. Slurm and Kubernetes want nodes, which are equal.
[[nodiscard]] std::string slurm_script(const LaunchJob&, const std::string& program);
[[nodiscard]] std::string mpirun_script(const LaunchJob&, const std::string& program);
[[nodiscard]] std::string kubernetes_manifest(const LaunchJob&);

}  // namespace rehearsal::cli
