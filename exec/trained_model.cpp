#include "exec/trained_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "exec/backends.hpp"
#include "exec/host/cpu_backend.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/memory/planner.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;

/// The forward pass on one process, with the outputs kept until they are read.
plan::Program program_of(const graph::EvaluationGraph& model, const ComputeBackend& backend, int threads) {
  plan::LoweringOptions options;
  options.threads = threads;
  auto program = plan::lower(model.step, plan::Plan{}, backend, options);
  auto& role = program.roles.front();
  for (plan::BufferIndex b = 0; b < role.buffers.size(); ++b) {
    if (std::find(model.outputs.begin(), model.outputs.end(), role.buffers[b].tensor) == model.outputs.end()) continue;
    auto& lifetime = role.buffers[plan::base_of(role, b)].lifetime;
    if (lifetime == plan::Lifetime::Transient) lifetime = plan::Lifetime::Step;
  }
  plan::plan_memory(role, 1);
  return program;
}

/// One size of batch.
class Evaluator {
 public:
  Evaluator(graph::EvaluationGraph model, const StoredValues& values, Communicator& world, const EvaluationOptions& options)
      : model_(std::move(model)),
        backend_(make_backend({.name = options.backend})),
        threads_(options.threads),
        program_(program_of(model_, *backend_, options.threads)),
        executor_(Training{program_, model_.step, world}, *backend_, {options.threads, options.seed}),
        untrained_(options.untrained) {
    for (const auto& [name, value] : values)
      if (model_.step.graph.find(name) == TensorId::None)
        throw BadInput("tensor '" + name + "'", "was trained, and is not in the model: the trained values are of another model");
    for (const auto t : executor_.stored_tensors()) take(t, values);
  }

  [[nodiscard]] const graph::EvaluationGraph& model() const { return model_; }
  double run(DataSource& data) { return executor_.step(0, data).loss; }

  /// Row-major elements of output `i` of the last run.
  [[nodiscard]] NpyArray output(std::size_t i) const {
    const auto t = model_.outputs[i];
    const auto kept = executor_.result(t);
    ensure(kept.has_value(), "outputs are kept to the end of the step");
    NpyArray array{kept->type, std::vector<std::byte>(kept->bytes.size())};
    reorder({kept->bytes.data(), array.bytes.data(), kept->format, plan::Format::Plain}, array.type, threads_);
    return array;
  }

 private:
  void take(TensorId t, const StoredValues& values) {
    const auto& tensor = model_.step.graph[t];
    const auto found = values.find(tensor.name);
    if (found == values.end()) return require_untrained(tensor);  // as the model has it
    const auto& value = found->second;
    if (value.type.shape != tensor.type.shape)
      throw BadInput("tensor '" + tensor.name + "'", "has shape " + graph::to_text(tensor.type.shape) + " in the model, and " +
                                                         graph::to_text(value.type.shape) + " among the trained values");
    const graph::Contents contents{value.type.dtype, graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(value.bytes)}};
    std::vector<std::byte> block(static_cast<std::size_t>(executor_.stored_bytes(t)));
    graph::read_into(contents, tensor.type.shape, tensor.type.dtype, {}, block.data());
    executor_.set_stored(t, block);
  }

  void require_untrained(const graph::Tensor& tensor) const {
    const bool trains = tensor.role == graph::TensorRole::Parameter || tensor.role == graph::TensorRole::State;
    if (!trains || !untrained_ || untrained_->contains(tensor.name)) return;
    throw BadInput("tensor '" + tensor.name + "'",
                   "is in the model, and neither among the trained values nor among the weights that were left as they are: the trained "
                   "values are of another model");
  }

  graph::EvaluationGraph model_;
  std::unique_ptr<ComputeBackend> backend_;
  int threads_;
  plan::Program program_;
  Executor executor_;
  std::optional<std::set<std::string>> untrained_;
};

/// Samples of another source, from one on.
class From final : public DataSource {
 public:
  From(DataSource& source, std::int64_t first) : source_(source), first_(first) {}
  void read(const SampleRequest& r, void* out) override { source_.read({r.input, r.type, first_ + r.first, r.count}, out); }
  [[nodiscard]] std::int64_t samples() const override { return source_.samples() - first_; }

 private:
  DataSource& source_;
  std::int64_t first_;
};

/// How many labels count, and how many of them have the largest output.
struct Hits {
  std::int64_t labels = 0, right = 0;
};

template <class T>
Hits count_hits(const NpyArray& scores, const std::vector<std::int64_t>& labels) {
  const auto& shape = scores.type.shape;
  const std::size_t axis = shape.size() == 3 ? 2 : 1;
  const auto classes = shape[axis];
  const auto inner = graph::element_count(graph::Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()));
  const auto* values = reinterpret_cast<const T*>(scores.bytes.data());
  Hits hits;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] == kIgnoredLabel) continue;
    const auto* first = values + static_cast<std::int64_t>(n) / inner * classes * inner + static_cast<std::int64_t>(n) % inner;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes; ++c)
      if (first[c * inner] > first[best * inner]) best = c;
    ++hits.labels;
    hits.right += best == labels[n] ? 1 : 0;
  }
  return hits;
}

template <class T>
bool has_nan(const NpyArray& array) {
  const auto* values = reinterpret_cast<const T*>(array.bytes.data());
  return std::any_of(values, values + array.bytes.size() / sizeof(T), [](T value) { return std::isnan(value); });
}

/// Of one batch.
struct BatchResult {
  double loss = 0, weight = 0;
  Hits hits;
  bool labelled = false, finite = true;
};

class Evaluation {
 public:
  Evaluation(const ModelOfBatch& model, const StoredValues& values, Communicator& world, const EvaluationOptions& options)
      : model_(model), values_(values), world_(world), options_(options) {}

  EvaluationResult run(std::int64_t batch) && {
    auto whole = evaluator(batch);
    const auto data = open_data(options_.data, whole->model().step);
    const auto samples = data->samples();
    std::int64_t first = 0;
    for (; first + batch <= samples; first += batch) add(*whole, *data, first);
    if (first < samples) add(*evaluator(samples - first), *data, first);
    result_.samples = samples;
    if (weight_ > 0) result_.loss = sum_ / weight_;
    if (hits_.labels > 0) result_.accuracy = static_cast<double>(hits_.right) / static_cast<double>(hits_.labels);
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(std::int64_t batch) const {
    auto model = model_(batch);
    if (model.step.batch != batch)
      throw BadInput(options_.data.sources.front(),
                     "the last " + std::to_string(batch) + " samples fill no batch of " + std::to_string(model.step.batch) +
                         ", and the model is written for that alone; export it with a dynamic batch, or leave them out");
    return std::make_unique<Evaluator>(std::move(model), values_, world_, options_);
  }

  void add(Evaluator& evaluator, DataSource& data, std::int64_t first) {
    const auto batch = result_of(evaluator, data, first);
    if (options_.keep_outputs) keep_outputs(evaluator);
    const auto& step = evaluator.model().step;
    if (batch.labelled) {
      hits_ = {hits_.labels + batch.hits.labels, hits_.right + batch.hits.right};
      result_.ignores_all = hits_.labels == 0;
    }
    if (step.loss != TensorId::None && batch.weight > 0) sum_ += batch.weight * batch.loss, weight_ += batch.weight;
    if (!batch.finite && result_.not_finite.empty()) result_.not_finite = first_not_finite(data, first, step.batch);
  }

  static BatchResult result_of(Evaluator& evaluator, DataSource& data, std::int64_t first) {
    From rest(data, first);
    const auto& step = evaluator.model().step;
    BatchResult batch{evaluator.run(rest), static_cast<double>(step.batch), {}};
    const auto labels = labels_of(step, rest);
    if (!labels.empty() && has_classes(evaluator)) {
      batch.labelled = true;
      batch.hits = hits_of(evaluator.output(0), labels);
      batch.weight = static_cast<double>(batch.hits.labels);
    }
    batch.finite = step.loss == TensorId::None ? !has_nan_outputs(evaluator) : batch.weight == 0 || std::isfinite(batch.loss);
    return batch;
  }

  static bool has_nan_outputs(const Evaluator& evaluator) {
    for (std::size_t i = 0; i < evaluator.model().names.size(); ++i) {
      const auto array = evaluator.output(i);
      if (array.type.dtype == DType::F32 && has_nan<float>(array)) return true;
      if (array.type.dtype == DType::F64 && has_nan<double>(array)) return true;
    }
    return false;
  }

  /// Of a batch that is not finite: its samples one by one, where the model takes them so.
  [[nodiscard]] std::string first_not_finite(DataSource& data, std::int64_t first, std::int64_t count) const {
    if (count == 1) return data.origin_of(first);
    if (auto model = model_(1); model.step.batch == 1) {
      Evaluator alone(std::move(model), values_, world_, options_);
      for (auto sample = first; sample < first + count; ++sample)
        if (!result_of(alone, data, sample).finite) return data.origin_of(sample);
    }
    return "one of the " + std::to_string(count) + " samples from " + data.origin_of(first) + " on";
  }

  [[nodiscard]] static bool has_classes(const Evaluator& evaluator) {
    const auto& step = evaluator.model().step;
    auto shape = step.graph[evaluator.model().outputs.front()].type.shape;
    if (shape.size() < 2) return false;
    shape.erase(shape.begin() + (shape.size() == 3 ? 2 : 1));
    return step.target != TensorId::None && shape == step.graph[step.target].type.shape;
  }

  static Hits hits_of(const NpyArray& scores, const std::vector<std::int64_t>& labels) {
    return scores.type.dtype == DType::F64 ? count_hits<double>(scores, labels) : count_hits<float>(scores, labels);
  }

  static std::vector<std::int64_t> labels_of(const graph::TrainingGraph& step, DataSource& data) {
    if (step.target == TensorId::None || step.graph[step.target].type.dtype != DType::I64) return {};
    const auto& target = step.graph[step.target];
    std::vector<std::int64_t> labels(static_cast<std::size_t>(graph::element_count(target.type.shape)));
    data.read({target.name, target.type, 0, step.batch}, labels.data());
    return labels;
  }

  void keep_outputs(const Evaluator& evaluator) {
    for (std::size_t i = 0; i < evaluator.model().names.size(); ++i) {
      auto array = evaluator.output(i);
      const auto [at, fresh] = result_.outputs.try_emplace(evaluator.model().names[i], array);
      if (fresh || array.type.shape.empty()) continue;
      at->second.type.shape[0] += array.type.shape[0];
      at->second.bytes.insert(at->second.bytes.end(), array.bytes.begin(), array.bytes.end());
    }
  }

  const ModelOfBatch& model_;
  const StoredValues& values_;
  Communicator& world_;
  const EvaluationOptions& options_;
  EvaluationResult result_;
  double sum_ = 0, weight_ = 0;
  Hits hits_;
};

}  // namespace

EvaluationResult evaluate(const ModelOfBatch& model, std::int64_t batch, const StoredValues& values, Communicator& world,
                          const EvaluationOptions& options) {
  return Evaluation(model, values, world, options).run(batch);
}

}  // namespace rehearsal::exec
