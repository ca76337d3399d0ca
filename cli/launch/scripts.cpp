#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cli/launch/volume.hpp"

namespace rehearsal::cli {
namespace {

bool is_plain(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_./=,:+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string quoted(const std::string& word) {
  if (is_plain(word)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// Days, hours and minutes as Slurm reads them, rounded up.
std::string slurm_time(double seconds) {
  constexpr long long kMinute = 60, kHour = 60, kDay = 24 * 60;
  const auto minutes = static_cast<long long>(std::ceil(seconds / kMinute));
  char text[48];
  std::snprintf(text, sizeof text, "%lld-%02lld:%02lld:00", minutes / kDay, minutes % kDay / kHour, minutes % kHour);
  return text;
}

/// A string of YAML: JSON's strings are some.
std::string yaml(const std::string& word) { return nlohmann::json(word).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace); }

std::string yaml_list(const std::vector<std::string>& words, const std::string& indent) {
  std::string text;
  for (const auto& word : words) text += indent + "- " + yaml(word) + "\n";
  return text;
}

std::string pod(const LaunchJob& job, const std::string& container) {
  const std::string i = "          ";
  return "      template:\n        spec:\n" + (container.find("launcher") == 0 ? std::string(i + "restartPolicy: OnFailure\n") : "") + i +
         "terminationGracePeriodSeconds: " + std::to_string(notice_of(job)) + "\n" + i + "containers:\n" + i + "- name: " + container +
         "\n" + i + "  image: " + yaml(job.image) + "\n" + i + "  workingDir: " + kVolumePlace + "\n" + i + "  volumeMounts:\n" + i +
         "  - name: training\n" + i + "    mountPath: " + kVolumePlace + "\n";
}

std::string volumes(const LaunchJob& job) {
  const std::string i = "          ";
  return i + "volumes:\n" + i + "- name: training\n" + i + "  persistentVolumeClaim:\n" + i + "    claimName: " + yaml(job.volume) + "\n";
}

/// What the file of mpirun has to say.
std::string hostfile(const std::vector<NodeRanks>& nodes) {
  if (nodes.size() < 2) return {};
  std::string text = "# FILE has a line for each node, in this order:\n";
  for (const auto& [count, node] : equal_nodes(nodes))
    text += "#   " + std::to_string(count) + " x NAME slots=" + std::to_string(node.ranks) + "   (" + node.device + ")\n";
  return text;
}

}  // namespace

std::vector<EqualNodes> equal_nodes(const std::vector<NodeRanks>& nodes) {
  std::vector<EqualNodes> kinds;
  for (const auto& node : nodes) {
    if (kinds.empty() || !(kinds.back().node == node)) kinds.push_back({0, node});
    ++kinds.back().count;
  }
  return kinds;
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

std::vector<std::string> command_of(const LaunchJob& job, const std::string& program) {
  std::vector<std::string> words{program, "run", job.plan_file};
  words.insert(words.end(), job.options.begin(), job.options.end());
  if (!job.words.checkpoint.empty() && !job.words.goes_on) words.emplace_back("--continue");
  return words;
}

long long patience_of(const LaunchJob& job) {
  constexpr double kStart = 8, kEach = 2;
  return static_cast<long long>(std::ceil(kStart + kEach * (job.step_seconds + job.save_seconds)));
}

long long notice_of(const LaunchJob& job) {
  constexpr long long kLeast = 120, kPassOn = 10;
  return std::max(kLeast, patience_of(job) + kPassOn);
}

std::vector<std::string> mpirun_words(const LaunchJob& job, long long patience) {
  return {"mpirun", "-n", std::to_string(job.plan.plan.ranks()), "--mca", "odls_base_sigkill_timeout", std::to_string(patience)};
}

std::string slurm_script(const LaunchJob& job, const std::string& program) {
  std::string text = "#!/bin/bash\n";
  const auto option = [&](const std::string& words) { text += "#SBATCH --" + words + "\n"; };
  option("job-name=rehearse");
  const auto& node = job.nodes.front();
  option("nodes=" + std::to_string(job.nodes.size()));
  option("ntasks-per-node=" + std::to_string(node.ranks));
  option("cpus-per-task=" + std::to_string(node.cores_per_rank));
  if (job.on_gpus) option("gres=gpu:" + std::to_string(node.ranks));
  option("time=" + slurm_time(job.longest_seconds));
  constexpr long long kMostOfSlurm = 65535;
  option("signal=USR1@" + std::to_string(std::min(kMostOfSlurm, notice_of(job))));
  option("requeue");
  option("open-mode=append");
  option("output=rehearse-%j.log");
  text += "\n# Submit it with: sbatch THIS_FILE. The plan is " + plan::to_text(job.plan.plan) + ".\n";
  text += "cd \"${SLURM_SUBMIT_DIR:-.}\" || exit 1\n";
  text += "srun --mpi=pmix --kill-on-bad-exit=1 " + quoted(command_of(job, program)) + "\nstatus=$?\n";
  if (job.words.checkpoint.empty()) return text + "exit $status\n";
  return text +
         "# 75: told to end before its time, and saved. It goes on in the queue.\n"
         "if [ $status -eq 75 ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\nexit $status\n";
}

std::string mpirun_script(const LaunchJob& job, const std::string& program) {
  auto words = mpirun_words(job, patience_of(job));
  const auto command = command_of(job, program);
  words.insert(words.end(), command.begin(), command.end());
  return "#!/bin/bash\n# The plan is " + plan::to_text(job.plan.plan) + ". On several nodes add --hostfile FILE behind mpirun.\n" +
         hostfile(job.nodes) + "exec " + quoted(words) + "\n";
}

std::string kubernetes_manifest(const LaunchJob& job) {
  auto words = mpirun_words(job, patience_of(job));
  const auto command = command_of(job, "rehearse");
  words.insert(words.end(), command.begin(), command.end());
  const auto& node = job.nodes.front();
  const std::string i = "          ";
  const auto gpus = job.on_gpus ? i + "    limits:\n" + i + "      nvidia.com/gpu: " + std::to_string(node.ranks) + "\n" : std::string();
  std::string text =
      "# For the MPI Operator of Kubeflow (kubectl apply -f THIS_FILE). The image holds rehearse, Open MPI and sshd;\n"
      "# the volume is shared by all pods, and holds plan, data and checkpoints.\n"
      "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: rehearse\nspec:\n";
  text += "  slotsPerWorker: " + std::to_string(node.ranks) + "\n  runPolicy:\n    cleanPodPolicy: Running\n    backoffLimit: 10\n";
  if (job.longest_seconds > 0)
    text += "    activeDeadlineSeconds: " + std::to_string(static_cast<long long>(std::ceil(job.longest_seconds))) + "\n";
  text += "  mpiReplicaSpecs:\n    Launcher:\n      replicas: 1\n" + pod(job, "launcher") + i + "  command:\n" +
          yaml_list(words, i + "  ") + volumes(job);
  text += "    Worker:\n      replicas: " + std::to_string(job.nodes.size()) + "\n" + pod(job, "worker") + i + "  resources:\n" + gpus + i +
          "    requests:\n" + i + "      cpu: " + yaml(std::to_string(node.ranks * node.cores_per_rank)) + "\n" + volumes(job);
  return text;
}

}  // namespace rehearsal::cli
