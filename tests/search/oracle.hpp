#pragma once
// Every plan of a small space, written down by loops that share nothing with the search.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/narrow_type.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/lowered_predictor.hpp"
#include "search/search.hpp"

namespace rehearsal::search::oracle {

using plan::parse_plan;
using predict::Assessment;
using predict::Predictor;

inline SearchResult found(Predictor& predictor, const std::string& objective, std::vector<std::string> free = searchable_keys()) {
  SearchOptions options;
  options.objective = objective;
  options.free = std::move(free);
  options.seconds = 600;
  Progress progress;
  return search(predictor, options, progress);
}

inline std::vector<int> divisors(int n) {
  std::vector<int> all;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

/// Every plan text of `keys`, one list of values each: "dp=1,tp=2".
inline std::vector<std::string> texts(const std::vector<std::pair<std::string, std::vector<std::string>>>& keys) {
  std::vector<std::string> all{""};
  for (const auto& [key, values] : keys) {
    std::vector<std::string> longer;
    for (const auto& text : all)
      for (const auto& value : values) longer.push_back(text + (text.empty() ? "" : ",") + key + "=" + value);
    all = std::move(longer);
  }
  return all;
}

inline std::vector<std::string> numbers(const std::vector<int>& values) {
  std::vector<std::string> all;
  for (const int v : values) all.push_back(std::to_string(v));
  return all;
}

/// Every plan that loops of its own write down, assessed; those that can run and fit.
inline std::vector<Assessment> tried(Predictor& predictor, const std::vector<std::string>& plans) {
  std::vector<Assessment> all;
  for (const auto& text : plans) {
    const auto plan = parse_plan(text);
    if (plan.dp > predictor.batch() || !predictor.violations(plan).empty()) continue;
    auto a = predictor.closed(plan);
    if (a.fits()) all.push_back(std::move(a));
  }
  return all;
}

/// Values of zero, with groups of the replicas of one node of 8 devices, of two, of four, where a node has several.
inline std::vector<std::string> zero_keys(int dp, int tp, int cp) {
  if (dp * cp == 1) return {"0"};
  std::vector<std::string> all{"0", "1", "2", "3"};
  const int in_node = 8 / (tp * cp);
  for (int group = in_node; in_node > 1 && group < dp; group *= 2)
    for (const auto* zero : {"1", "2", "3"})
      if (dp % group == 0) all.push_back(zero + std::string(",zero_group=") + std::to_string(group));
  return all;
}

/// What Megatron can do with a GPT of 8 layers on so many A100s.
inline std::vector<std::string> megatron_plans(int devices) {
  std::vector<std::string> all;
  for (const int ranks : divisors(devices))
    for (const int pp : divisors(ranks))
      for (const int tp : divisors(ranks / pp))
        for (const int cp : divisors(ranks / pp / tp)) {
          if (pp > 8 || tp > 8) continue;
          const int dp = ranks / pp / tp / cp, blocks = 8 / pp;
          std::vector<std::string> schedules{"1f1b"};
          for (const int v : divisors(blocks))
            if (v > 1 && pp > 1) schedules.push_back("interleaved,interleave=" + std::to_string(v));
          const auto some = texts({{"dp", numbers({dp})},
                                   {"tp", numbers({tp})},
                                   {"pp", numbers({pp})},
                                   {"cp", numbers({cp})},
                                   {"micro_batch", numbers(divisors(std::max(1, 16 / dp)))},
                                   {"sequence_parallel", tp > 1 ? std::vector<std::string>{"off", "on"} : std::vector<std::string>{"off"}},
                                   {"zero", zero_keys(dp, tp, cp)},
                                   {"order", {"tp.cp.ep.dp.pp", "tp.cp.ep.pp.dp"}},
                                   {"recompute", {"none", "selective", "full"}},
                                   {"schedule", schedules}});
          all.insert(all.end(), some.begin(), some.end());
        }
  return all;
}

struct Megatron {
  explicit Megatron(int devices, double memory) : platform(platforms::with_devices(platforms::load("dgx-a100"), devices)) {
    platform.nodes.front().device.memory = Bytes(memory);
    predictor = predict::frameworks::framework_predictor(
        {graph::zoo::build("gpt?layers=8&hidden=2048&heads=16&seq=1024&vocab=8192", 16), "bf16", "adam"}, platform,
        *costmodel::find_framework("megatron-core"));
  }
  platforms::Platform platform;
  std::unique_ptr<Predictor> predictor;
};

/// Our own execution of a small model on devices of the catalogue, whose memory can be set.
struct OwnExecution {
  explicit OwnExecution(int count = 4, const std::string& network = "gpt?layers=2&hidden=64&heads=2&seq=32&vocab=96", int batch = 4,
                        DType dtype = DType::F32, const std::string& optimizer = "sgd")
      : devices(count) {
    auto forward = graph::zoo::build(network, batch);
    if (dtype != DType::F32) forward = graph::with_narrow_type(forward, dtype).graph;
    graph::TrainingOptions options;
    options.optimizer.name = optimizer;
    training = graph::build_training_graph(graph::with_initial_values(forward), options);
    dims = std::make_shared<const graph::LogicalDims>(training.graph);
  }

  int devices;
  graph::TrainingGraph training;
  std::shared_ptr<const graph::LogicalDims> dims;
  platforms::Platform platform = platforms::with_devices(platforms::load("dgx-a100"), devices);
  plan::TableBackend backend;
  std::vector<costmodel::CostModel> models = models_of(platform);  ///< by group of nodes

  [[nodiscard]] std::unique_ptr<Predictor> predictor() const { return predict::lowered_predictor(job()); }
  [[nodiscard]] predict::Workload job() const {
    predict::Workload job{training, dims, platform, backend, models.back(), "f32"};
    for (const auto& model : models) job.models.push_back(&model);
    return job;
  }
  void set_platform(const platforms::Platform& other) { platform = other, models = models_of(other); }
  static std::vector<costmodel::CostModel> models_of(const platforms::Platform& platform) {
    std::vector<costmodel::CostModel> models;
    for (const auto& nodes : platform.nodes) models.emplace_back(nodes.device, costmodel::Calibration{}, "f32");
    return models;
  }
  void set_memory(double bytes) { platform.nodes.front().device.memory = Bytes(bytes); }
};

inline bool beats(const Assessment& a, const Assessment& b) {
  bool better = false;
  for (const auto& row : objective_table()) {
    if (row.value(a) > row.value(b)) return false;
    better = better || row.value(a) < row.value(b);
  }
  return better;
}

}  // namespace rehearsal::search::oracle
