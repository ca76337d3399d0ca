#include "predict/explain.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/collectives/exchange.hpp"
#include "plan/collectives/meetings.hpp"
#include "predict/group_links.hpp"

namespace rehearsal::predict {
namespace {

using graph::NodeId;
using graph::TensorId;

constexpr std::string_view kSeparators = "./";

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "[6/dp, 768/tp]" of a shape whose dimensions some axes split.
/// What goes round a ring, or is made of it, is there for one block at a time: "64/cp in turn".
std::string layout_text(const plan::Sharding& sharding, const graph::Shape& shape, const plan::Layout& layout, const plan::Turn& turn) {
  std::string text = "[", pending;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
    for (std::size_t a = 0; a < layout.size(); ++a)
      if (layout[a].split() && static_cast<std::size_t>(layout[a].dim) == d) text += "/" + sharding.axes[a].name;
    if (turn.any() && static_cast<std::size_t>(turn.dim) == d)
      text += "/" + sharding.axes[static_cast<std::size_t>(turn.axis)].name + " in turn";
  }
  for (std::size_t a = 0; a < layout.size(); ++a)
    if (layout[a].partial()) pending += (pending.empty() ? " summed over " : ", ") + sharding.axes[a].name;
  return text + "]" + pending;
}

/// The block of keys for which attention in a ring makes a tensor.
plan::Turn turn_of(const plan::Sharding& sharding, TensorId t) {
  if (!sharding.is_inside_ring(t)) return {};
  const NodeId producer = sharding.dims->graph()[t].producer;
  const plan::AttentionRing& ring = *sharding.ring_of(producer);
  const auto n = std::find_if(ring.forward.begin(), ring.forward.end(), [&](const plan::RingNode& r) { return r.node == producer; });
  if (n == ring.forward.end()) return {};
  return {static_cast<std::int16_t>(ring.axis), n->results.front().dim, 0};
}

std::string without_layer(const std::string& name, std::string_view layer) {
  if (!name.starts_with(layer) || name.size() <= layer.size() || kSeparators.find(name[layer.size()]) == std::string_view::npos)
    return name;
  return name.substr(layer.size() + 1);
}

/// What a layer holds and sends, without its name.
std::string signature_of(const LayerPlan& layer) {
  std::string text;
  for (const auto& t : layer.tensors) text += t.layout + graph::to_text(t.local) + (t.stored ? "p;" : ";");
  for (const auto* list : {&layer.messages, &layer.host_moves})
    for (const auto& m : *list) text += m.what + std::string(name(m.body)) + std::to_string(m.bytes) + "x" + std::to_string(m.times) + ";";
  return text;
}

bool take_as_long(Seconds a, Seconds b) { return std::abs(a.value() - b.value()) <= 1e-9 * a.value(); }

/// Whether they differ in their names alone. Tensors say what is computed; of other frameworks than our own there are none, and the time
/// does.
bool are_alike(const LayerPlan& a, const LayerPlan& b) {
  if (signature_of(a) != signature_of(b)) return false;
  return !b.tensors.empty() || (b.compute.value() > 0 && take_as_long(a.compute, b.compute) && take_as_long(a.recompute, b.recompute));
}

class StageExplainer {
 public:
  StageExplainer(const Predictor& predictor, const PlayableStep& step, int rank)
      : predictor_(predictor),
        g_(predictor.graph()),
        program_(step.program),
        role_(step.program.role(rank)),
        costs_(step.costs.roles[step.program.role_of[static_cast<std::size_t>(rank)]]),
        messages_priced_(step.costs.with_messages),
        rank_(rank),
        fabric_(predictor.platform_for(program_.plan)),
        links_(program_, predictor.platform_for(program_.plan), fabric_, predictor.cost_model_for(program_.plan)) {}

  StagePlan explain() && {
    StagePlan stage;
    stage.stage = role_.stage;
    stage.first_rank = rank_;
    for (const auto role : program_.role_of) stage.ranks += program_.roles[role].stage == role_.stage ? 1 : 0;
    stage.memory_bytes = role_.memory.arena_bytes + plan::center_bytes(program_, role_);
    stage.host_memory_bytes = role_.memory.host_bytes;
    stage.in_flight = role_.memory.in_flight;
    for (const auto& slot : role_.slots) ++slots_[slot.body];
    if (program_.sharding) add_tensors();
    for (std::size_t b = 0; b < role_.bodies.size(); ++b)
      for (std::size_t n = 0; n < role_.bodies[b].instructions.size(); ++n) add_instruction(b, n);
    for (const auto& name : order_) join(stage.layers, std::move(layers_.at(name)));
    return stage;
  }

 private:
  LayerPlan& layer(NodeId n) {
    const auto& node = g_[n];
    // A layer's backward pass and update belong to it, whatever other nodes they are called after.
    const auto from = node.phase == graph::Phase::Backward && node.forward != NodeId::None ? node.forward : n;
    return layer(predict::layer_of(g_[from].name));
  }
  LayerPlan& layer(std::string_view name) {
    const auto [at, fresh] = layers_.try_emplace(std::string(name));
    if (fresh) at->second.name = at->second.last = name, order_.push_back(at->second.name);
    return at->second;
  }

  void add_tensors() {
    std::vector<bool> seen(g_.tensors().size(), false);
    for (const auto& body : role_.bodies) {
      if (body.kind != plan::BodyKind::Forward) continue;
      for (const auto& i : body.instructions) {
        if (i.kind != plan::InstructionKind::Kernel) continue;
        for (const auto t : g_[i.node].inputs)
          if (t != TensorId::None && graph::is_weight(g_[t].role)) add_tensor(layer(i.node), t, seen);
        for (const auto t : g_[i.node].outputs)
          if (t != TensorId::None) add_tensor(layer(i.node), t, seen);
      }
    }
  }

  void add_tensor(LayerPlan& to, TensorId t, std::vector<bool>& seen) {
    if (seen[graph::index(t)]) return;
    seen[graph::index(t)] = true;
    const auto& tensor = g_[t];
    const auto& layout = program_.sharding->layout(t);
    TensorPlace place;
    place.name = without_layer(tensor.name, to.name);
    const plan::Turn turn = turn_of(*program_.sharding, t);
    const auto at = plan::position(program_, rank_, 0);
    place.layout = layout_text(*program_.sharding, tensor.type.shape, layout, turn);
    place.shape = tensor.type.shape;
    place.local = program_.sharding->local_shape(t, layout, at);
    if (turn.any()) {
      auto& keys = place.local[static_cast<std::size_t>(turn.dim)];
      keys = program_.sharding->keys_in(turn, keys, at).count();
    }
    place.bytes = graph::element_count(place.local) * static_cast<std::int64_t>(size_of(tensor.type.dtype));
    place.stored = graph::is_weight(tensor.role);
    to.tensors.push_back(std::move(place));
  }

  /// Whose doing it is that a tensor is sent.
  LayerPlan& layer_sending(TensorId t) {
    const auto& tensor = g_[t];
    if (tensor.producer != NodeId::None && g_[tensor.producer].phase != graph::Phase::Update) return layer(tensor.producer);
    return layer(predict::layer_of(tensor.name));
  }

  LayerPlan& layer_of(const plan::Instruction& i) {
    if (i.node != NodeId::None) return layer(i.node);
    if (i.tensor != TensorId::None) return layer_sending(i.tensor);
    return layer(i.kernel >= 0 ? std::string_view(role_.kernels[static_cast<std::size_t>(i.kernel)].op) : std::string_view("step"));
  }

  [[nodiscard]] int times(std::size_t body, const plan::Instruction& i) const {
    const auto at = slots_.find(static_cast<std::uint16_t>(body));
    const bool elsewhere = i.during == plan::During::Exact || i.during == plan::During::Partings;  // in no step that is predicted
    if (at == slots_.end() || elsewhere || !plan::takes_part(program_, rank_, i)) return 0;
    return i.when == plan::When::Always ? at->second : 1;
  }

  void add_instruction(std::size_t body, std::size_t n) {
    const auto& i = role_.bodies[body].instructions[n];
    if (i.kind == plan::InstructionKind::Collective || i.kind == plan::InstructionKind::Send) return add_message(body, n);
    const Seconds once = costs_.seconds[body][n].front().seconds;
    if (plan::crosses_to_host(role_, i)) return add_host_move(body, i, once);
    if (i.kind != plan::InstructionKind::Kernel && i.tensor == TensorId::None) return;
    auto& to = layer_of(i);
    const auto seconds = once * static_cast<double>(times(body, i));
    to.compute += seconds;
    if (i.again) to.recompute += seconds;
  }

  void add_host_move(std::size_t body, const plan::Instruction& i, Seconds once) {
    auto& to = layer_sending(i.tensor);
    const bool leaves = role_.buffers[i.outputs.front()].on_host;
    to.host_moves.push_back({leaves ? "to the host" : "from the host", without_layer(g_[i.tensor].name, to.name), role_.bodies[body].kind,
                             plan::message_bytes(role_, i, 0), times(body, i), once});
  }

  void add_message(std::size_t body, std::size_t n) {
    const auto& i = role_.bodies[body].instructions[n];
    const bool collective = i.kind == plan::InstructionKind::Collective;
    auto& to = layer_of(i);
    const auto& buffer = role_.buffers[collective ? i.outputs.front() : i.inputs.front()];
    const bool moves = collective && role_.collectives[static_cast<std::size_t>(i.collective)].redistribution >= 0;
    const bool bucket = buffer.layout.empty() && !moves;
    const Seconds priced = costs_.seconds[body][n].front().seconds;
    to.messages.push_back({collective ? collective_text(i) : send_text(i), bucket ? buffer.name : without_layer(g_[i.tensor].name, to.name),
                           role_.bodies[body].kind, plan::message_bytes(role_, i, 0), times(body, i),
                           messages_priced_ ? priced
                           : collective     ? collective_seconds(i)
                                            : send_seconds(i)});
  }

  [[nodiscard]] std::string collective_text(const plan::Instruction& i) const {
    const auto& c = role_.collectives[static_cast<std::size_t>(i.collective)];
    return std::string(name(c.kind)) + " (" + c.algorithm + ") over " + program_.axes[c.axis].name +
           (c.every > 1 ? " every " + std::to_string(c.every) + " steps" : "");
  }
  [[nodiscard]] std::string send_text(const plan::Instruction& i) const {
    return "send to stage " + std::to_string(role_.stage + role_.messages[static_cast<std::size_t>(i.message)].stage_offset);
  }
  [[nodiscard]] Seconds collective_seconds(const plan::Instruction& i) {
    const auto& c = role_.collectives[static_cast<std::size_t>(i.collective)];
    const auto& links = links_.of({c.axis, rank_});
    const auto bytes = static_cast<double>(size_of(role_.buffers[i.outputs.front()].dtype));
    const plan::CollectiveMember member{rank_, 0, static_cast<std::int64_t>(static_cast<double>(plan::message_bytes(role_, i, 0)) / bytes),
                                        bytes, links.ranks_per_node};
    return plan::collective_time(program_, c, role_, member, links);
  }
  [[nodiscard]] Seconds send_seconds(const plan::Instruction& i) const {
    const auto path = fabric_.path(rank_, plan::peer(program_, rank_, role_.messages[static_cast<std::size_t>(i.message)]));
    return path.latency + Bytes(static_cast<double>(plan::message_bytes(role_, i, 0))) / path.bandwidth;
  }

  static void join(std::vector<LayerPlan>& layers, LayerPlan next) {
    if (!layers.empty() && are_alike(layers.back(), next)) {
      ++layers.back().alike;
      layers.back().last = next.name;
    } else {
      layers.push_back(std::move(next));
    }
  }

  const Predictor& predictor_;
  const graph::Graph& g_;
  const plan::Program& program_;
  const plan::Role& role_;
  const RoleCosts& costs_;
  bool messages_priced_;
  int rank_;
  platforms::Fabric fabric_;
  GroupLinks links_;
  std::map<std::uint16_t, int> slots_;  ///< by body: how often it runs
  std::map<std::string, LayerPlan, std::less<>> layers_;
  std::vector<std::string> order_;
};

}  // namespace

Seconds LayerPlan::communication() const {
  Seconds sum;
  for (const auto& m : messages) sum += m.seconds * static_cast<double>(m.times);
  return sum;
}

std::int64_t StagePlan::message_bytes() const {
  std::int64_t sum = 0;
  for (const auto& l : layers)
    for (const auto& m : l.messages) sum += l.alike * m.times * m.bytes;
  return sum;
}

Seconds StagePlan::communication() const {
  Seconds sum;
  for (const auto& l : layers) sum += l.communication() * static_cast<double>(l.alike);
  return sum;
}

std::string_view layer_of(std::string_view name) {
  std::size_t begin = 0, first_end = std::string_view::npos;
  while (begin <= name.size()) {
    const auto end = std::min(name.find_first_of(kSeparators, begin), name.size());
    const auto part = name.substr(begin, end - begin);
    if (is_number(part) && begin > 0) return name.substr(0, end);
    if (!part.empty() && first_end == std::string_view::npos) first_end = end;
    begin = end + 1;
  }
  return name.substr(0, std::min(first_end, name.size()));
}

std::vector<StagePlan> explain(const Predictor& predictor, const PlayableStep& step) {
  std::vector<StagePlan> stages;
  for (const int rank : busiest_representatives(step.program, step.costs, predictor.platform_for(step.program.plan)))
    stages.push_back(StageExplainer(predictor, step, rank).explain());
  return stages;
}

}  // namespace rehearsal::predict
