#include "plan/lowering/role_builder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "plan/lowering/gathered_parameters.hpp"
#include "plan/lowering/sharded_gradients.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

RoleBuilder::RoleBuilder(const LoweringContext& context, const RolePlace& place)
    : RoleDraft(context, place),
      dealt_gradients_(std::make_unique<DealtGradients>(*this)),
      gathered_parameters_(std::make_unique<GatheredParameters>(*this)) {
  for (std::size_t i = 0; i < c_.sharding.conversions.size(); ++i) {
    const auto& conversion = c_.sharding.conversions[i];
    if (g_[conversion.tensor].role == graph::TensorRole::Updated && conversion.consumers.empty())
      into_storage_[conversion.tensor] = static_cast<int>(i);
    for (const auto& step : conversion.steps)
      if (step.axis == c_.time_axis && step.kind == ConversionKind::AllReduce) time_summed_.insert(conversion.tensor);
  }
}

RoleBuilder::~RoleBuilder() = default;

void RoleBuilder::close_gathers() { gathered_parameters_->close(); }

int RoleBuilder::conversion_into_storage(TensorId t) const {
  const auto at = into_storage_.find(t);
  return at == into_storage_.end() ? -1 : at->second;
}

void RoleBuilder::place_forward() { place_nodes(0, first_of_backward(), NodesOfPass::Passes); }

void RoleBuilder::place_backward() {
  if (first_of_backward() < g_.nodes().size()) forget_for_backward();
  place_nodes(first_of_backward(), g_.nodes().size(), NodesOfPass::Passes);
}

void RoleBuilder::place_weight_gradients() { place_nodes(0, g_.nodes().size(), NodesOfPass::WeightGradients); }

void RoleBuilder::place_updates() {
  send_sums();
  place_nodes(0, g_.nodes().size(), NodesOfPass::Updates);
}

std::size_t RoleBuilder::first_of_backward() const {
  const auto& nodes = g_.nodes();
  return static_cast<std::size_t>(std::ranges::find(nodes, Phase::Backward, &graph::Node::phase) - nodes.begin());
}

/// What runs late may use what does not, and the update what both made, whatever the order of the nodes.
void RoleBuilder::place_nodes(std::size_t begin, std::size_t end, NodesOfPass group) {
  for (std::size_t n = begin; n < end; ++n) {
    const auto id = static_cast<NodeId>(n);
    if (const auto body = body_in(id, group); body && !placed_.contains(id)) lower_node(id, *body);
  }
}

/// Where a node of this rank and of that group runs; nothing: it is another rank's, or of another group.
std::optional<std::uint16_t> RoleBuilder::body_in(NodeId n, NodesOfPass group) const {
  const bool everywhere = c_.stages[n] == kAnyStage && g_[n].phase == Phase::Update;
  if (!runs_here(n) && !everywhere) return std::nullopt;
  const auto body = everywhere ? update_ : body_of(n);
  const auto own = body == update_ ? NodesOfPass::Updates : runs_late(body) ? NodesOfPass::WeightGradients : NodesOfPass::Passes;
  return own == group ? std::optional(body) : std::nullopt;
}

void RoleBuilder::lower_node(NodeId n, std::uint16_t body) {
  if (lower_in_ring(n, body) || lower_in_kernel(n, body)) {
    // with all of its ring, or of its kernel
  } else if (graph::has(graph::schema(g_[n]).traits, graph::Trait::View))
    lower_view(n, body);
  else
    lower_kernel(n, body);
  after_production(n, body);
  stash_results(n, body);
}

void RoleBuilder::lower_view(NodeId n, std::uint16_t body) {
  const auto out = g_[n].outputs.front();
  const Key key{g_[n].inputs.front(), -1, Format::Plain, false};
  const auto source = in_format(operand(n, 0, body), key, Format::Plain, body);
  auto buffer = describe(out, body);
  buffer.part_of = source;
  buffer.category = role_.buffers[base(source)].category;
  const Key out_key{out, -1, Format::Plain, false};
  new_buffer(std::move(buffer), &out_key);
}

namespace {

std::vector<std::optional<graph::TensorType>> types_of(const Role& role, const std::vector<BufferIndex>& buffers, std::size_t variant) {
  std::vector<std::optional<graph::TensorType>> types;
  for (auto b : buffers) {
    if (b == kNoBuffer)
      types.emplace_back();
    else
      types.push_back(
          graph::TensorType{role.buffers[b].dtype, role.buffers[b].shapes[std::min(variant, role.buffers[b].shapes.size() - 1)]});
  }
  return types;
}

std::vector<Format> formats_of(const Role& role, const std::vector<BufferIndex>& buffers) {
  std::vector<Format> formats;
  for (auto b : buffers) formats.push_back(b == kNoBuffer ? Format::Plain : role.buffers[b].format);
  return formats;
}

}  // namespace

KernelOffer RoleBuilder::offer_for(const OfferRequest& call, const std::vector<const Buffer*>& results) const {
  const auto now = formats_of(role_, call.inputs);
  std::vector<std::vector<std::optional<graph::TensorType>>> inputs, outputs;
  for (std::size_t v = 0; v < at_.size(); ++v) {
    inputs.push_back(types_of(role_, call.inputs, v));
    auto& types = outputs.emplace_back();
    for (const Buffer* result : results)
      types.push_back(result == nullptr
                          ? std::nullopt
                          : std::optional(graph::TensorType{result->dtype, result->shapes[std::min(v, result->shapes.size() - 1)]}));
  }
  std::vector<LocalTypes> others;
  for (std::size_t v = 1; v < at_.size(); ++v) others.push_back({inputs[v], outputs[v]});
  return c_.backend.offer({call.schema, call.attributes, inputs.front(), outputs.front(), now, c_.options.threads, others});
}

void RoleBuilder::lower_kernel(NodeId n, std::uint16_t body) {
  const auto& node = g_[n];
  Instruction instruction;
  instruction.kind = InstructionKind::Kernel;
  instruction.phase = again_ ? Phase::Backward : node.phase;
  instruction.node = n;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    instruction.inputs.push_back(node.inputs[i] == TensorId::None ? kNoBuffer : operand(n, i, body));
  std::vector<Buffer> results;
  for (auto t : node.outputs)
    if (t != TensorId::None) results.push_back(describe(t, body));

  auto changed = update_of_moments(n);
  if (!changed) changed = c_.sharding.attributes_on(n, at_.front());
  if (changed) set_attributes(instruction, std::move(*changed));
  std::vector<const Buffer*> wanted;
  for (std::size_t i = 0, r = 0; i < node.outputs.size(); ++i)
    wanted.push_back(node.outputs[i] == TensorId::None ? nullptr : &results[r++]);
  const auto offer = offer_for({graph::schema(node), attributes_of(role_, instruction, node), instruction.inputs}, wanted);
  bring_into_formats(n, instruction.inputs, offer.input_formats, body);
  for (std::size_t i = 0, r = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == TensorId::None) {
      instruction.outputs.push_back(kNoBuffer);
      continue;
    }
    auto& buffer = results[r++];
    buffer.format = offer.output_formats[i];
    instruction.outputs.push_back(place_result(node.outputs[i], std::move(buffer)));
  }
  set_kernel(instruction, offer, {});
  emit(body, std::move(instruction));
}

void RoleBuilder::bring_into_formats(NodeId n, std::vector<BufferIndex>& inputs, const std::vector<Format>& formats, std::uint16_t body) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != kNoBuffer) inputs[i] = in_format_of({n, i}, inputs[i], formats[i], body);
}

BufferIndex RoleBuilder::in_format_of(Use use, BufferIndex b, Format format, std::uint16_t body) {
  const TensorId t = g_[use.node].inputs[use.operand];
  const bool whole = g_[t].role == graph::TensorRole::Input && !per_micro_batch(role_.bodies[body].kind) && c_.program.micro_batches > 1;
  const Key key{t, c_.sharding.fed_by[graph::index(use.node)][use.operand], format, whole};
  return in_format(b, key, format, body);
}

/// Where a kernel writes `t`: an updated parameter over the old one, a gradient straight into its bucket unless micro-batches are summed.
BufferIndex RoleBuilder::place_result(TensorId t, Buffer buffer) {
  const Key key{t, -1, buffer.format, false};
  // Made on the way to something else: what is kept stays what readers get, and running statistics are updated once.
  if (again_ && (g_[t].role == graph::TensorRole::Updated || buffers_.contains(key))) return new_buffer(std::move(buffer), nullptr);
  if (g_[t].role == graph::TensorRole::Updated) {
    if (const auto at = at_work_.find(g_[t].stored_in); at != at_work_.end()) return buffers_[key] = at->second;
    if (conversion_into_storage(t) < 0) return buffers_[key] = version_of(stored_buffer(g_[t].stored_in), WeightVersion::Next);
    buffer.category = MemoryCategory::Communication;
    return new_buffer(std::move(buffer), &key);
  }
  const auto part = part_of_bucket_.find(t);
  const bool in_bucket = part != part_of_bucket_.end() && c_.program.micro_batches == 1;
  const auto place = in_bucket ? part->second : dealt_gradients_->place_of(t);
  if (place == kNoBuffer || buffer.format != Format::Plain) return new_buffer(std::move(buffer), &key);
  return buffers_[key] = place;
}

/// How the backend runs it, and the memory that it wants for that.
void RoleBuilder::set_kernel(Instruction& instruction, const KernelOffer& offer, std::string_view op) {
  const auto workspace = static_cast<std::int64_t>(offer.workspace.value());
  if (workspace > 0) instruction.workspace = new_workspace(g_[instruction.node].name, offer.workspace);
  instruction.kernel = static_cast<std::int32_t>(role_.kernels.size());
  role_.kernels.push_back({offer.implementation, offer.input_formats, offer.output_formats, workspace, std::string(op)});
}

void RoleBuilder::set_attributes(Instruction& instruction, graph::Attributes attributes) {
  instruction.attributes = static_cast<std::int32_t>(role_.attributes.size());
  role_.attributes.push_back(std::move(attributes));
}

std::uint32_t RoleBuilder::emit_kernel_of(NodeId node, std::string_view op, graph::Attributes attributes, CallPlace place,
                                          const std::vector<BufferIndex>& outputs) {
  const bool own = op.empty();
  std::vector<const Buffer*> results;
  for (const auto out : outputs) results.push_back(&role_.buffers[out]);
  const auto& schema = own ? graph::schema(g_[node]) : graph::op_table()[graph::op(op)];
  const auto offer = offer_for({schema, own ? g_[node].attributes : attributes, place.inputs}, results);
  for (std::size_t i = 0; i < place.inputs.size(); ++i)
    if (auto& input = place.inputs[i]; input != kNoBuffer) input = in_format(input, offer.input_formats[i], place.body);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    auto& buffer = role_.buffers[outputs[o]];
    ensure(!writers_[outputs[o]].known || buffer.format == offer.output_formats[o], "what is written again keeps its format");
    buffer.format = offer.output_formats[o];
  }
  auto kernel = instruction(InstructionKind::Kernel, TensorId::None, place.body, std::move(place.inputs), outputs);
  kernel.when = place.when;
  kernel.node = node;
  set_kernel(kernel, offer, op);
  if (!own) set_attributes(kernel, std::move(attributes));
  return emit(place.body, std::move(kernel));
}

std::uint32_t RoleBuilder::emit(std::uint16_t body, Instruction instruction) {
  instruction.again = again_;
  instruction.during = during_;
  if (once_a_step_ && per_micro_batch(kind(body))) instruction.when = When::FirstMicroBatch;
  refuse_crossing(instruction, body);
  if (!stash_awaited_ && instruction.stream == Stream::Compute) instruction.after.push_back(awaited_stash_), stash_awaited_ = true;
  return append(body, std::move(instruction));
}

void RoleBuilder::report_loss() {
  const auto loss = c_.training.loss;
  if (loss == TensorId::None || stage_of_tensor(loss) != stage_) return;
  const auto at = buffers_.find({loss, -1, Format::Plain, false});
  ensure(at != buffers_.end(), "the loss is computed on the stage that owns it");
  BufferIndex result = at->second;
  const auto& conversions = c_.sharding.conversions;
  for (std::size_t i = 0; i < conversions.size(); ++i)
    if (conversions[i].tensor == loss && conversions[i].consumers.empty()) result = converted(static_cast<int>(i), result, update_);
  emit(update_, instruction(InstructionKind::Report, loss, update_, {result}, {}));
}

BufferIndex RoleBuilder::stored_buffer(TensorId t) {
  const Key key{t, -1, Format::Plain, false};
  if (const auto known = buffers_.find(key); known != buffers_.end()) return known->second;
  auto buffer = describe(t, prologue_);
  buffer.lifetime = Lifetime::Persistent;
  buffer.on_host = lives_on_host(t);
  const auto& trained = c_.training.parameters;
  if (std::any_of(trained.begin(), trained.end(), [t](const auto& p) { return p.value == t && p.update != NodeId::None; }))
    buffer.versions = delay() + 1;
  return new_buffer(std::move(buffer), &key);
}

}  // namespace rehearsal::plan
