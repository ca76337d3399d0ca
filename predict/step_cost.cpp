#include "predict/step_cost.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "plan/backend.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::predict {

static_assert(plan::TableBackend::kImplementation == costmodel::kAnyImplementation);
namespace {

const graph::Shape& local_shape(const plan::Buffer& b, std::size_t variant) { return b.shapes[std::min(variant, b.shapes.size() - 1)]; }

std::optional<graph::TensorType> local_type(const plan::Role& role, plan::BufferIndex index, std::size_t variant) {
  if (index == plan::kNoBuffer) return std::nullopt;
  const auto& b = role.buffers[index];
  return graph::TensorType{b.dtype, local_shape(b, variant)};
}

std::vector<std::optional<graph::TensorType>> local_types(const plan::Role& role, const std::vector<plan::BufferIndex>& buffers,
                                                          std::size_t variant) {
  std::vector<std::optional<graph::TensorType>> types;
  for (auto b : buffers) types.push_back(local_type(role, b, variant));
  return types;
}

/// Which random numbers are drawn does not change the time.
std::string without_stream(const graph::Attributes& attributes) {
  if (!attributes.has("stream")) return attributes.to_text();
  graph::Attributes relevant = attributes;
  relevant.erase("stream");
  return relevant.to_text();
}

std::string signature_of(const graph::Attributes& attributes, const graph::NodeView& view, const plan::KernelInfo& info) {
  std::string text = without_stream(attributes);
  const auto add = [&](std::span<const std::optional<graph::TensorType>> types, const std::vector<plan::Format>& formats) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      text += '|';
      if (!types[i]) continue;
      text += std::string(name(types[i]->dtype)) + graph::to_text(types[i]->shape);
      if (i < formats.size() && formats[i] != plan::Format::Plain) text += std::string(name(formats[i]));
    }
    text += '>';
  };
  add(view.inputs, info.input_formats);
  add(view.outputs, info.output_formats);
  return text;
}

/// A kernel that reads 16 bits is one for 16 bits, also where its sums are f64.
DType compute_type(const graph::NodeView& view, DType otherwise) {
  const auto& first = view.inputs.empty() ? std::nullopt : view.inputs.front();
  if (first && (first->dtype == DType::BF16 || first->dtype == DType::F16)) return first->dtype;
  for (const auto& type : view.outputs)
    if (type && is_float(type->dtype)) return type->dtype;
  return otherwise;
}

}  // namespace

costmodel::KernelCase copy_case(plan::InstructionKind kind, const graph::TensorType& type, const plan::KernelInfo* info, DType otherwise) {
  const auto bytes = graph::size_of(type);
  costmodel::KernelCase kernel;
  const bool adds = kind == plan::InstructionKind::Accumulate;
  const graph::TensorType sum{plan::sum_type(type.dtype), type.shape};
  kernel.op = std::string(name(kind));
  kernel.family = graph::CostFamily::Movement;
  kernel.work = {Flops(adds ? static_cast<double>(graph::element_count(type.shape)) : 0.0),
                 bytes + (adds ? graph::size_of(sum) * 2.0 : bytes)};
  kernel.dtype = otherwise;
  if (info != nullptr) {
    kernel.implementation = info->implementation;
    kernel.signature = std::string(name(info->input_formats.front())) + ">" + std::string(name(info->output_formats.front()));
  }
  kernel.signature += std::string(name(type.dtype));
  if (adds && sum.dtype != type.dtype) kernel.signature += ">" + std::string(name(sum.dtype));
  kernel.signature += graph::to_text(type.shape);
  return kernel;
}

costmodel::KernelCase kernel_case(const KernelCall& call, int threads) {
  costmodel::KernelCase kernel;
  kernel.op = std::string(call.schema.name);
  kernel.implementation = call.kernel.implementation;
  kernel.signature = signature_of(call.view.attributes, call.view, call.kernel);
  kernel.family = call.schema.family;
  kernel.work = graph::work_of(call.schema, call.view);
  kernel.dtype = compute_type(call.view, call.otherwise);
  kernel.threads = threads;
  return kernel;
}

namespace {

/// A kernel of another framework, of which no more is known than its operator.
costmodel::KernelCase foreign_kernel(const plan::KernelInfo& info, int threads) {
  costmodel::KernelCase kernel;
  kernel.op = info.op;
  kernel.implementation = info.implementation;
  if (const auto op = graph::find_op(info.op)) kernel.family = graph::op_table()[*op].family;
  kernel.threads = threads;
  return kernel;
}

/// What an instruction copies, as one tensor. A vector has room for the parts of others, too, or for those parts alone that others want.
graph::TensorType copied(const PlacedInstruction& placed) {
  const auto& [role, i, variant, threads] = placed;
  const auto type = [&](plan::BufferIndex b) { return *local_type(role, b, variant); };
  const auto count = [&](const std::vector<plan::BufferIndex>& buffers) {
    std::int64_t sum = 0;
    for (const auto b : buffers) sum += graph::element_count(type(b).shape);
    return sum;
  };
  if (i.kind == plan::InstructionKind::Accumulate) return type(i.inputs.front());
  auto whole = type(i.outputs.front());
  if (i.kind == plan::InstructionKind::Pack) whole.shape = {std::min(count(i.inputs), count(i.outputs))};
  if (i.kind == plan::InstructionKind::Unpack) whole.shape = {count(i.outputs)};
  return whole;
}

bool is_of_compressor(const plan::Instruction& i) {
  return i.kind == plan::InstructionKind::Compress || i.kind == plan::InstructionKind::Recompress ||
         i.kind == plan::InstructionKind::Decompress;
}

int ranks_of(const plan::Program& program, const plan::Role& role, const plan::Instruction& i) {
  return program.axes[role.collectives[static_cast<std::size_t>(i.collective)].axis].size;
}

/// As long as a core takes per element of it, over copying it (CompressorRow): a rank compresses its own, and decodes what all have sent,
/// or projects it twice and multiplies two factors.
costmodel::KernelCase compression_case(const plan::Program& program, const PlacedInstruction& placed) {
  const auto& compression = program.plan.compression;
  const auto& [role, i, variant, threads] = placed;
  const bool compresses = i.kind != plan::InstructionKind::Decompress;
  const auto& row = *plan::compressor(compression.rule);
  const bool factors = row.sum == plan::CompressedSum::Factors;
  const auto vector = static_cast<double>(role.buffers[(compresses ? i.outputs : i.inputs).front()].bytes);
  const auto gradients = plan::gradients_of(i);
  double elements = 0, bytes = 0, sent = 0;
  for (const auto b : gradients) {
    const auto type = *local_type(role, b, variant);
    elements += static_cast<double>(graph::element_count(type.shape));
    bytes += graph::size_of(type).value();
    if (row.sum == plan::CompressedSum::Gather)
      sent += static_cast<double>(plan::compressed_bytes(compression, graph::element_count(type.shape), type.dtype));
  }
  const double ranks = row.sum == plan::CompressedSum::Gather ? vector / sent : 1;
  double passes = factors ? row.compressing / 2 : row.compressing;  // P, and then Q
  if (!factors && i.kind == plan::InstructionKind::Recompress)      // a share from each rank, and that once more
    passes = row.decoding + row.compressing / ranks_of(program, role, i);
  costmodel::KernelCase kernel;
  kernel.op = std::string(name(i.kind));
  kernel.family = graph::CostFamily::Movement;
  kernel.dtype = role.buffers[gradients.front()].dtype;
  kernel.signature = to_text(compression) + " " + std::to_string(static_cast<std::int64_t>(elements)) + " of " +
                     std::to_string(static_cast<std::int64_t>(vector));
  kernel.work = {Flops(elements * (compresses ? 1 : ranks)), Bytes(2 * bytes * (compresses ? passes : ranks * row.decoding))};
  kernel.threads = threads;
  return kernel;
}

}  // namespace

costmodel::KernelCase kernel_case(const plan::Program& program, const graph::Graph& graph, const PlacedInstruction& placed) {
  const auto& [role, i, variant, threads] = placed;
  const auto* info = i.kernel >= 0 ? &role.kernels[static_cast<std::size_t>(i.kernel)] : nullptr;
  if (info != nullptr && i.outputs.empty()) return foreign_kernel(*info, threads);
  if (i.kind == plan::InstructionKind::Kernel) {
    const auto& node = graph[i.node];
    const auto inputs = local_types(role, i.inputs, variant), outputs = local_types(role, i.outputs, variant);
    return kernel_case({plan::schema_of(role, i, node), {inputs, outputs, plan::attributes_of(role, i, node)}, *info, program.dtype},
                       threads);
  }
  if (is_of_compressor(i)) return compression_case(program, placed);
  auto kernel = copy_case(i.kind, copied(placed), info, program.dtype);
  if (i.kind == plan::InstructionKind::Stash || i.kind == plan::InstructionKind::Restore)
    kernel.work.bytes =
        graph::size_of(*local_type(role, i.inputs.front(), variant)) + graph::size_of(*local_type(role, i.outputs.front(), variant));
  kernel.threads = threads;
  return kernel;
}

namespace {

bool computes(const plan::Instruction& i) {
  return i.kind == plan::InstructionKind::Kernel || i.kind == plan::InstructionKind::Reorder ||
         i.kind == plan::InstructionKind::Accumulate || i.kind == plan::InstructionKind::Load || i.kind == plan::InstructionKind::Slice ||
         i.kind == plan::InstructionKind::Mask || i.kind == plan::InstructionKind::Pack || i.kind == plan::InstructionKind::Unpack ||
         i.kind == plan::InstructionKind::Stash || i.kind == plan::InstructionKind::Restore || is_of_compressor(i);
}

bool have_equal_types(const PlacedInstruction& a, const PlacedInstruction& b, std::vector<plan::BufferIndex> plan::Instruction::*buffers) {
  return std::ranges::equal(a.instruction.*buffers, b.instruction.*buffers, [&](plan::BufferIndex of_a, plan::BufferIndex of_b) {
    if (of_a == plan::kNoBuffer || of_b == plan::kNoBuffer) return of_a == of_b;
    const auto &x = a.role.buffers[of_a], &y = b.role.buffers[of_b];
    return x.dtype == y.dtype && local_shape(x, a.variant) == local_shape(y, b.variant);
  });
}

/// What instructions of one Program take. Layers repeat: of kernels that differ in their nodes alone the cost model is asked once.
class InstructionCosts {
 public:
  InstructionCosts(const plan::Program& program, const graph::Graph& graph) : program_(program), graph_(graph) {}

  [[nodiscard]] costmodel::Estimate of(const costmodel::CostModel& model, const PlacedInstruction& placed) {
    const auto& i = placed.instruction;
    if (!computes(i)) return {};
    if (plan::crosses_to_host(placed.role, i))
      return model.host_copy(graph::size_of(*local_type(placed.role, i.outputs.front(), placed.variant)));
    if (i.kind != plan::InstructionKind::Kernel || i.outputs.empty()) return model.kernel(kernel_case(program_, graph_, placed));
    auto& alike = known_[key_of(model, placed)];
    for (const auto& known : alike)
      if (are_alike(known.kernel, placed)) return known.estimate;
    return alike.emplace_back(placed, model.kernel(kernel_case(program_, graph_, placed))).estimate;
  }

 private:
  /// What is quick to compare, and tells most kernels apart.
  using Key = std::tuple<const costmodel::CostModel*, const graph::OpSchema*, int, std::int64_t>;
  struct Known {
    Known(const PlacedInstruction& of, const costmodel::Estimate& takes) : kernel(of), estimate(takes) {}
    PlacedInstruction kernel;
    costmodel::Estimate estimate;
  };

  [[nodiscard]] Key key_of(const costmodel::CostModel& model, const PlacedInstruction& placed) const {
    const auto& [role, i, variant, threads] = placed;
    const auto result = i.outputs.front();
    const auto elements = result == plan::kNoBuffer ? 0 : graph::element_count(local_shape(role.buffers[result], variant));
    return {&model, &plan::schema_of(role, i, graph_[i.node]), threads, elements};
  }

  /// Of one key.
  [[nodiscard]] bool are_alike(const PlacedInstruction& a, const PlacedInstruction& b) const {
    const auto info = [](const PlacedInstruction& p) -> const plan::KernelInfo& {
      return p.role.kernels[static_cast<std::size_t>(p.instruction.kernel)];
    };
    const auto& x = info(a);
    const auto& y = info(b);
    return have_equal_types(a, b, &plan::Instruction::inputs) && have_equal_types(a, b, &plan::Instruction::outputs) &&
           x.implementation == y.implementation && x.input_formats == y.input_formats && x.output_formats == y.output_formats &&
           plan::attributes_of(a.role, a.instruction, graph_[a.instruction.node]) ==
               plan::attributes_of(b.role, b.instruction, graph_[b.instruction.node]);
  }

  const plan::Program& program_;
  const graph::Graph& graph_;
  std::map<Key, std::vector<Known>> known_;
};

}  // namespace

ProgramCosts cost_of(const plan::Program& program, const graph::TrainingGraph& training, const costmodel::CostModel& model, int threads) {
  return cost_of(program, training, [&](int) { return RankDevice{model, threads}; });
}

ProgramCosts cost_of(const plan::Program& program, const graph::TrainingGraph& training, const DeviceOfRank& device_of) {
  ProgramCosts costs;
  InstructionCosts of_instructions(program, training.graph);
  for (std::uint32_t number = 0; number < program.roles.size(); ++number) {
    const auto& role = program.roles[number];
    const auto first = std::ranges::find(program.role_of, number) - program.role_of.begin();
    const auto [model, threads] = device_of(static_cast<int>(first));
    RoleCosts of_role;
    for (const auto& body : role.bodies) {
      auto& of_body = of_role.seconds.emplace_back(body.instructions.size());
      const std::size_t variants = plan::per_micro_batch(body.kind) ? role.variant_samples.size() : 1;
      for (std::size_t n = 0; n < body.instructions.size(); ++n)
        for (std::size_t v = 0; v < variants; ++v)
          of_body[n].push_back(of_instructions.of(model, {role, body.instructions[n], v, threads}));
    }
    costs.roles.push_back(std::move(of_role));
  }
  return costs;
}

BusySeconds busy_seconds(const plan::Program& program, const plan::Role& role, const RoleCosts& costs) {
  BusySeconds busy;
  const auto number = static_cast<std::uint32_t>(&role - program.roles.data());
  const auto first = static_cast<int>(std::ranges::find(program.role_of, number) - program.role_of.begin());
  for (const auto& slot : role.slots) {
    const auto& body = role.bodies[slot.body];
    const bool often = plan::per_micro_batch(body.kind);
    const auto variant = often ? plan::variant_of_micro_batch(role, slot.micro_batch) : 0;
    for (std::size_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      if (!plan::runs(program, role, i, slot.micro_batch) || !plan::takes_part(program, first, i)) continue;
      const auto& variants = costs.seconds[slot.body][n];
      (often ? busy.micro_batches : busy.once) += variants[std::min(variant, variants.size() - 1)].seconds.value();
    }
  }
  return busy;
}

Breakdown Breakdown::scaled(double factor) const {
  Breakdown parts;
  for (const auto& part : kBreakdownParts) parts.*part.seconds = this->*part.seconds * factor;
  return parts;
}

namespace {

/// Which replica each rank is of, and how long it computes in a step.
class Replicas {
 public:
  Replicas(const plan::Program& program, const ProgramCosts& costs) : program_(program) {
    for (std::size_t r = 0; r < program.roles.size(); ++r)
      of_role_.push_back(busy_seconds(program, program.roles[r], costs.roles[r]).all());
    axis_ = static_cast<std::size_t>(std::ranges::find(program.axes, "dp", &plan::MeshAxisInfo::name) - program.axes.begin());
  }

  [[nodiscard]] int of(int rank) const { return axis_ == program_.axes.size() ? 0 : coordinate(program_, rank, axis_); }
  [[nodiscard]] double seconds(int rank) const { return of_role_[program_.role_of[static_cast<std::size_t>(rank)]]; }
  /// Of every stage the rank that has most to do; of equals the one among `otherwise`, or the first.
  [[nodiscard]] std::vector<int> busiest_ranks(int replica, const std::vector<int>& otherwise = {}) const {
    std::map<int, int> by_stage;
    for (const int rank : otherwise)
      if (of(rank) == replica) by_stage.try_emplace(program_.role(rank).stage, rank);
    for (int rank = 0; rank < program_.ranks; ++rank) {
      if (of(rank) != replica) continue;
      auto& best = by_stage.try_emplace(program_.role(rank).stage, rank).first->second;
      if (seconds(rank) > seconds(best)) best = rank;
    }
    std::vector<int> ranks;
    for (const auto& [stage, rank] : by_stage) ranks.push_back(rank);
    return ranks;
  }

 private:
  const plan::Program& program_;
  std::vector<double> of_role_;
  std::size_t axis_ = 0;
};

}  // namespace

std::vector<int> busiest_representatives(const plan::Program& program, const ProgramCosts& costs, const platforms::Platform& platform) {
  const bool alike = platform.nodes.size() == 1;
  std::vector<int> largest;
  if (alike) largest = plan::representatives(program);
  // One role a stage: nobody has to ask what each takes, of which a search does very many.
  if (alike && program.roles.size() == largest.size()) return largest;
  const Replicas replicas(program, costs);
  int slowest = alike ? largest.front() : 0;
  for (int rank = 0; rank < program.ranks; ++rank)
    if (replicas.seconds(rank) > replicas.seconds(slowest)) slowest = rank;
  return replicas.busiest_ranks(replicas.of(slowest), largest);
}

std::vector<std::vector<int>> kinds_of_replicas(const plan::Program& program, const ProgramCosts& costs,
                                                const platforms::Platform& platform) {
  std::vector<std::vector<int>> kinds{busiest_representatives(program, costs, platform)};
  if (program.roles.size() == kinds.front().size()) return kinds;  // one role a stage
  const Replicas replicas(program, costs);
  std::map<int, std::set<std::uint32_t>> roles;  // by replica
  for (int rank = 0; rank < program.ranks; ++rank) roles[replicas.of(rank)].insert(program.role_of[static_cast<std::size_t>(rank)]);
  std::set<std::set<std::uint32_t>> known{roles.at(replicas.of(kinds.front().front()))};
  for (const auto& [replica, own] : roles)
    if (known.insert(own).second) kinds.push_back(replicas.busiest_ranks(replica));
  return kinds;
}

}  // namespace rehearsal::predict
