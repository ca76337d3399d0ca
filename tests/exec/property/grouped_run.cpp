#include "tests/exec/property/grouped_run.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "exec/play/interpreter.hpp"

namespace rehearsal::property {

using exec::TensorView;
using graph::index;
using graph::Node;
using graph::TensorId;
using graph::TensorType;

namespace {

/// Rows of the operator table that see the samples of one group, and their operands and results that are sums over samples.
struct GroupedRow {
  std::string_view op;
  std::vector<std::size_t> sums;
  bool makes_sums;
};
const GroupedRow* grouped_row(const Node& node) {
  static const std::vector<GroupedRow> kRows{
      {"BatchNormSums", {}, true}, {"BatchNormApply", {1}, false}, {"BatchNormGradSums", {1}, true}, {"BatchNormGradInput", {1, 4}, false}};
  const auto at = std::find_if(kRows.begin(), kRows.end(), [&](const GroupedRow& r) { return r.op == graph::schema(node).name; });
  return at == kRows.end() ? nullptr : &*at;
}

/// A kernel with the types that it was made for.
struct Made {
  std::vector<std::optional<TensorType>> inputs, outputs;
  std::unique_ptr<exec::Kernel> kernel;
};

Made make(const Node& node, Made made, const graph::Attributes& attributes) {
  const std::vector<plan::Format> in(made.inputs.size(), plan::Format::Plain), out(made.outputs.size(), plan::Format::Plain);
  made.kernel = exec::make_reference_kernel({graph::schema(node), attributes, made.inputs, made.outputs, in, out, 1});
  return made;
}

Made types_of(const graph::Graph& g, const Node& node) {
  Made made;
  for (const TensorId t : node.inputs) made.inputs.push_back(t == TensorId::None ? std::nullopt : std::optional(g[t].type));
  for (const TensorId t : node.outputs) made.outputs.push_back(t == TensorId::None ? std::nullopt : std::optional(g[t].type));
  return made;
}

/// Copies rows of the first dimension, out of or into the whole tensor.
void copy_rows(const TensorType& whole, const std::vector<std::int64_t>& rows, std::byte* all, std::byte* some, bool out) {
  const auto row = static_cast<std::size_t>(graph::size_of(whole).value()) / static_cast<std::size_t>(whole.shape.front());
  for (std::size_t n = 0; n < rows.size(); ++n) {
    std::byte *here = all + static_cast<std::size_t>(rows[n]) * row, *there = some + n * row;
    std::memcpy(out ? there : here, out ? here : there, row);
  }
}

}  // namespace

SampleGroups groups_of(const plan::Program& program) {
  if (program.plan.bn == plan::BatchStatistics::Batch) return {};
  std::map<std::pair<int, int>, std::vector<std::int64_t>> found;
  const auto replica_of = [&](int rank) {
    int replica = 0;
    for (std::size_t a = 0; a < program.axes.size(); ++a)
      if (program.axes[a].name == "dp" || program.axes[a].name == "shard")
        replica = replica * program.axes[a].size + plan::coordinate(program, rank, a);
    return replica;
  };
  for (int rank = 0; rank < program.ranks; ++rank)
    for (int m = 0; m < program.micro_batches; ++m) {
      const auto range = plan::samples(program, rank, m);
      auto& rows = found[{program.plan.bn == plan::BatchStatistics::Local ? replica_of(rank) : 0, m}];
      for (auto n = range.first; n < range.first + range.count; ++n)
        if (std::find(rows.begin(), rows.end(), n) == rows.end()) rows.push_back(n);
    }
  SampleGroups groups;
  for (auto& [_, rows] : found) groups.push_back(std::move(rows));
  return groups;
}

struct GroupedRun::Task {
  const Node& node;
  const GroupedRow* row;
  Made whole;
  std::vector<Made> by_group;
};

GroupedRun::GroupedRun(const graph::Graph& g, SampleGroups groups) : g_(g), groups_(std::move(groups)), statistics_(g.tensors().size()) {
  for (const auto& tensor : g.tensors()) {
    auto& bytes = values_.emplace_back(static_cast<std::size_t>(graph::size_of(tensor.type).value()));
    if (tensor.contents.known())
      graph::read_into(tensor.contents, tensor.type.shape, tensor.type.dtype, {0, graph::initial_stream(tensor.name)}, bytes.data());
  }
  for (const Node& node : g.nodes()) {
    auto task = std::make_unique<Task>(Task{node, grouped_row(node), make(node, types_of(g, node), node.attributes), {}});
    const auto batch = task->row ? g[node.inputs[0]].type.shape.front() : 0;
    for (std::size_t n = 0; task->row && n < groups_.size(); ++n) {
      const auto share = static_cast<std::int64_t>(groups_[n].size());
      Made made = types_of(g, node);
      for (auto* types : {&made.inputs, &made.outputs})
        for (auto& type : *types)
          if (type && type->shape == g[node.inputs[0]].type.shape) type->shape.front() = share;
      auto attributes = node.attributes;
      attributes.set("count", node.attributes.integer("count", 0) * share / batch);
      task->by_group.push_back(make(node, std::move(made), attributes));
    }
    tasks_.push_back(std::move(task));
  }
}

GroupedRun::~GroupedRun() = default;

void GroupedRun::set(TensorId t, std::span<const std::byte> elements) {
  std::copy(elements.begin(), elements.end(), values_[index(t)].begin());
}

void GroupedRun::set_reals(TensorId t, std::span<const double> values) {
  const auto bytes = std::as_bytes(values);
  const graph::Contents contents{DType::F64,
                                 graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())}};
  graph::read_into(contents, g_[t].type.shape, g_[t].type.dtype, {}, values_[index(t)].data());
}

std::vector<double> GroupedRun::get_reals(TensorId t) const {
  const graph::Contents contents{g_[t].type.dtype, graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(values_[index(t)])}};
  return graph::read_reals(contents, g_[t].type.shape, 0, 0);
}

void GroupedRun::run(std::int64_t step) {
  for (auto& task : tasks_) {
    if (task->row)
      run_by_groups(*task, step);
    else
      run_whole(*task, step);
    for (const TensorId t : task->node.outputs)
      if (touch_ && t != TensorId::None) touch_(t, values_[index(t)]);
  }
  for (std::size_t t = 0; t < values_.size(); ++t)
    if (const TensorId stored = g_.tensors()[t].stored_in; stored != TensorId::None) set(stored, values_[t]);
}

void GroupedRun::run_whole(Task& task, std::int64_t step) {
  std::vector<TensorView> inputs, outputs;
  const auto view = [&](TensorId t) { return t == TensorId::None ? TensorView{} : TensorView{values_[index(t)].data(), &g_[t].type}; };
  for (const TensorId t : task.node.inputs) inputs.push_back(view(t));
  for (const TensorId t : task.node.outputs) outputs.push_back(view(t));
  task.whole.kernel->run(inputs, outputs, {0, step, nullptr});
}

void GroupedRun::run_by_groups(Task& task, std::int64_t step) {
  const TensorId out = task.node.outputs[0];
  auto& sums = statistics_[index(out)];
  sums.assign(groups_.size(), std::vector<double>(values_[index(out)].size() / sizeof(double)));
  for (std::size_t n = 0; n < groups_.size(); ++n) {
    Made& made = task.by_group[n];
    std::vector<std::vector<std::byte>> parts;
    std::vector<TensorView> inputs;
    parts.reserve(made.inputs.size() + 1);
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      const TensorId t = task.node.inputs[i];
      const auto& is_sum = task.row->sums;
      void* data = values_[index(t)].data();
      if (std::find(is_sum.begin(), is_sum.end(), i) != is_sum.end()) {
        data = statistics_[index(t)][n].data();
      } else if (made.inputs[i]->shape != g_[t].type.shape) {
        auto& part = parts.emplace_back(static_cast<std::size_t>(graph::size_of(*made.inputs[i]).value()));
        copy_rows(g_[t].type, groups_[n], values_[index(t)].data(), part.data(), true);
        data = part.data();
      }
      inputs.push_back({data, &*made.inputs[i]});
    }
    auto& result = parts.emplace_back(static_cast<std::size_t>(graph::size_of(*made.outputs[0]).value()));
    const std::vector<TensorView> outputs{{task.row->makes_sums ? static_cast<void*>(sums[n].data()) : result.data(), &*made.outputs[0]}};
    made.kernel->run(inputs, outputs, {0, step, nullptr});
    if (!task.row->makes_sums) copy_rows(g_[out].type, groups_[n], values_[index(out)].data(), result.data(), false);
  }
  if (!task.row->makes_sums) return void(sums.clear());
  // The sums over all samples are those of the groups together: running statistics and gradients of scale and bias want them.
  auto* all = reinterpret_cast<double*>(values_[index(out)].data());
  for (std::size_t i = 0; i < sums.front().size(); ++i) {
    all[i] = 0;
    for (const auto& of_group : sums) all[i] += of_group[i];
  }
}

}  // namespace rehearsal::property
