#pragma once
// A step of a framework, from a model of the zoo to its time, for tests.

#include <map>

#include "costmodel/attention_kernels.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/closed_step.hpp"
#include "predict/frameworks/lower.hpp"
#include "predict/frameworks/memory.hpp"

namespace rehearsal::predict::frameworks::sample {

/// A job of one micro-batch of a zoo's model (which the shapes of `zoo` are for), whose members tests change as they like.
struct Sample {
  Sample(const std::string& zoo, platforms::Platform where, const char* framework, const char* precision = "bf16")
      : Sample(graph::zoo::build(zoo), std::move(where), framework, precision) {}
  Sample(graph::Graph graph, platforms::Platform where, const char* framework, const char* precision = "bf16")
      : platform(std::move(where)),
        profile(*costmodel::find_framework(framework)),
        model(std::move(graph), Grain::Blocks),
        job{platform, profile, {}, precision, 0, 0, 1, {}} {
    job.micro_batch = static_cast<double>(model.batch());
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  [[nodiscard]] ModelParts parts() const { return parts_of(model, job, 0); }

  template <class Ask>
  [[nodiscard]] auto ask(const Ask& question) const {
    std::map<std::size_t, ModelParts> own;
    const auto parts_on = [&](std::size_t kind) -> const ModelParts& {
      return own.try_emplace(kind, parts_of(model, job, kind)).first->second;
    };
    const NodeLinks links(platform);
    const Timers timers(job, links, costmodel::published_constants().values, parts_on);
    Stager stager;
    return question(stager.staged(job, timers));
  }
  [[nodiscard]] StepTime time() const { return ask(closed_step); }
  [[nodiscard]] RankMemory memory() const { return ask(memory_of); }

  platforms::Platform platform;
  costmodel::FrameworkProfile profile;
  FoldedModel model;
  FrameworkJob job;
};

/// A model of the zoo in which the weights that a glob names are not trained.
inline graph::Graph with_frozen(const std::string& zoo, const std::string& glob) {
  graph::TrainingOptions options;
  options.freeze = {glob};
  std::vector<std::string> warnings;
  return graph::with_roles(graph::zoo::build(zoo), options, warnings);
}

inline double bytes_of(const std::vector<PassStep>& steps) {
  double sum = 0;
  for (const auto& step : steps)
    if (!step.exchange && step.row.kind == costmodel::RateKind::Elementwise) sum += step.row.bytes * step.row.count;
  return sum;
}

inline double work_of(const ModelParts& model, costmodel::RateKind kind) {
  double sum = 0;
  for (const auto& part : model.parts)
    for (const auto& step : part.forward)
      if (!step.exchange && step.row.kind == kind) sum += step.row.work * step.row.count * part.repeats;
  return sum;
}

/// Of a forward pass of fused attention on an H100, tiles that are not full included (tests/costmodel/attention.cpp).
inline double attention_work(const costmodel::AttentionShape& shape) {
  return costmodel::occupied_attention(shape, 132, costmodel::attention_kernels("hopper"));
}

inline const Part& block_of(const ModelParts& model) {
  for (const auto& part : model.parts)
    if (part.repeated) return part;
  return model.parts.front();
}

}  // namespace rehearsal::predict::frameworks::sample
