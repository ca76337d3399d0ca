// Attention while keys and values go round a ring of ranks: in every turn a rank works on its rows with one block of keys, and passes the
// block on (Liu et al. 2023, "Ring Attention", section 3). Forward, parts of the result are merged by the sums of exponentials behind them.
// Backward, scores are recomputed block by block, and the gradients of keys and values travel beside them until they are back at the rank
// that they belong to.

#include <algorithm>

#include "base/error.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

class RoleBuilder::RingPass {
 public:
  RingPass(RoleBuilder& builder, const AttentionRing& ring, std::uint16_t body)
      : b_(builder), ring_(ring), body_(body), ranks_(static_cast<std::int32_t>(b_.c_.sharding.axes[ring.axis].size)) {}

  void forward() {
    load(ring_.forward, ring_.forward.size());
    for (turn_ = 0; turn_ < ranks_; ++turn_) {
      begin_turn();
      if (!masked()) attend();
      end_turn();
    }
    b_.buffers_[plain_key(ring_.result)] = result_;
    b_.row_sums_.try_emplace(&ring_, row_sums_);
  }

  void backward() {
    const bool before = b_.again_;
    load(ring_.forward, ring_.forward.size() - 1);  // the values come with the backward nodes
    load(ring_.backward, ring_.backward.size());
    dot_with_result();
    for (turn_ = 0; turn_ < ranks_; ++turn_) {
      begin_turn();
      if (!masked()) {
        b_.again_ = true;
        weigh_again();
        b_.again_ = before;
        differentiate();
      }
      for (auto& g : gradients_) pass_gradient(g);
      end_turn();
    }
    for (auto& g : gradients_) finish_gradient(g);
    for (const auto& [t, sum] : sums_) b_.buffers_[plain_key(t)] = sum;
  }

 private:
  /// What goes round.
  struct Traveller {
    TensorId tensor = TensorId::None;
    std::int16_t dim = 0;
    Layout layout;                    ///< whole along the keys
    BufferIndex now = kNoBuffer;      ///< this turn's block
    BufferIndex message = kNoBuffer;  ///< on its way
    std::int32_t redistribution = -1;
  };
  struct Gradient {
    NodeId node = NodeId::None;
    Traveller travels;
    BufferIndex own = kNoBuffer;  ///< what this rank contributes to its own block
  };

  static Key plain_key(TensorId t) { return {t, -1, Format::Plain, false}; }
  [[nodiscard]] Turn turn(std::int16_t dim) const { return {static_cast<std::int16_t>(ring_.axis), dim, turn_}; }

  [[nodiscard]] bool masked() const {
    if (ring_.masked.empty()) return false;
    const auto own = b_.at_.front()[ring_.axis];
    return ring_.masked[static_cast<std::size_t>(own * ranks_ + (own - turn_ + ranks_) % ranks_)];
  }

  // ---- buffers

  /// A buffer of which only this turn's block of `dim` is there.
  Buffer in_turn(Buffer whole, Turn turn) const {
    whole.turn = turn;
    for (std::size_t v = 0; v < whole.shapes.size(); ++v) {
      auto& length = whole.shapes[v][static_cast<std::size_t>(turn.dim)];
      length = b_.c_.sharding.keys_in(turn, length, b_.at_[v]).count();
    }
    set_bytes(whole);
    return whole;
  }

  /// A traveller as it lies on this rank, its keys aside.
  [[nodiscard]] Traveller traveller_of(TensorId t, std::int16_t dim, Layout layout) const {
    layout[ring_.axis] = {};
    return {t, dim, std::move(layout), kNoBuffer, kNoBuffer, -1};
  }

  [[nodiscard]] Buffer travelling(const Traveller& t, std::int32_t number) const {
    Turn at = turn(t.dim);
    at.number = number;
    auto buffer = in_turn(b_.describe(t.tensor, t.layout, body_), at);
    buffer.category = MemoryCategory::Communication;
    return buffer;
  }

  BufferIndex result_buffer(const RingNode& n, std::size_t o) {
    const TensorId t = b_.g_[n.node].outputs[o];
    const auto dim = n.results[o].dim;
    if (n.results[o].role == KeyRole::Inside) return b_.new_buffer(in_turn(b_.describe(t, body_), turn(dim)), nullptr);
    if (n.results[o].role == KeyRole::Passed && turn_ > 0)
      return b_.new_buffer(travelling(traveller_of(t, dim, b_.c_.sharding.layout(t)), turn_), nullptr);
    return b_.new_buffer(b_.describe(t, body_), nullptr);
  }

  /// So many numbers for each row of `like`.
  BufferIndex row_buffer(BufferIndex like, const char* name, std::int64_t count) {
    Buffer row;
    const Buffer& of = b_.role_.buffers[like];
    row.name = of.name + name;
    row.dtype = size_of(of.dtype) < 4 ? DType::F32 : of.dtype;
    row.shapes = of.shapes;
    row.lifetime = b_.lifetime_in(body_);
    for (auto& shape : row.shapes) shape.back() = count;
    set_bytes(row);
    return b_.new_buffer(std::move(row), nullptr);
  }

  // ---- kernels

  [[nodiscard]] std::vector<BufferIndex> operands(const RingNode& n) {
    std::vector<BufferIndex> found;
    for (std::size_t i = 0; i < n.operands.size(); ++i) found.push_back(operand(n, i));
    return found;
  }

  BufferIndex operand(const RingNode& n, std::size_t i) {
    const TensorId t = b_.g_[n.node].inputs[i];
    if (t == TensorId::None) return kNoBuffer;
    switch (n.operands[i].role) {
      case KeyRole::Inside:
        return made_.at(t);
      case KeyRole::Passed:
        return traveller(t)->now;
      case KeyRole::Cut:
        return cut(n, i);
      default:
        return b_.operand(n.node, i, body_);
    }
  }

  BufferIndex cut(const RingNode& n, std::size_t i) {
    const auto all = b_.operand(n.node, i, body_);
    const auto [at, fresh] = cuts_.try_emplace(all, kNoBuffer);
    if (!fresh) return at->second;
    auto block = in_turn(b_.describe_operand(n.node, i, b_.role_.buffers[all].layout, body_), turn(n.operands[i].dim));
    return at->second = b_.cut({InstructionKind::Slice, ring_.axis}, all, std::move(block), body_);
  }

  void emit(NodeId node, std::string_view op, std::vector<BufferIndex> inputs, const std::vector<BufferIndex>& outputs) {
    b_.emit_kernel_of(node, op, {}, {std::move(inputs), body_, When::Always}, outputs);
  }

  /// Emits a node's own kernel for this turn.
  std::vector<BufferIndex> emit_own(const RingNode& n) {
    std::vector<BufferIndex> outputs;
    for (std::size_t o = 0; o < n.results.size(); ++o) outputs.push_back(result_buffer(n, o));
    emit(n.node, {}, operands(n), outputs);
    for (std::size_t o = 0; o < outputs.size(); ++o) made_[b_.g_[n.node].outputs[o]] = outputs[o];
    return outputs;
  }

  void add(NodeId node, BufferIndex sum, BufferIndex part) { emit(node, "Add", {sum, part}, {sum}); }

  // ---- forward

  void attend() {
    BufferIndex sum = kNoBuffer;
    for (const RingNode& n : ring_.forward) {
      if (n.node == ring_.softmax) {
        const auto weights = result_buffer(n, 0);
        sum = row_buffer(weights, ":row-sums", 2);
        emit(n.node, "BlockSoftmax", operands(n), {weights, sum});
        made_[b_.g_[n.node].outputs[0]] = weights;
        continue;
      }
      emit_own(n);
    }
    const auto part = b_.plain(made_.at(ring_.result), body_);
    if (result_ == kNoBuffer)
      result_ = part, row_sums_ = sum;
    else
      emit(ring_.forward.back().node, "MergeBlocks", {result_, row_sums_, part, sum}, {result_, row_sums_});
  }

  // ---- backward

  /// Sums of gradient times weight over all keys are those of gradient times result over its columns (Dao et al. 2022, section 3.1).
  void dot_with_result() {
    const auto result = b_.plain(b_.kept_result(ring_.result, body_), body_);
    BufferIndex gradient = kNoBuffer;
    NodeId reader = NodeId::None;
    for (const RingNode& n : ring_.backward)
      for (std::size_t i = 0; i < n.operands.size() && gradient == kNoBuffer; ++i)
        if (b_.g_[n.node].inputs[i] == ring_.result_gradient) gradient = b_.plain(b_.operand(n.node, i, body_), body_), reader = n.node;
    dot_ = row_buffer(gradient, ":dot", 1);
    emit(reader, "RowDot", {gradient, result}, {dot_});
  }

  void weigh_again() {
    for (const RingNode& n : ring_.forward) {
      if (&n == &ring_.forward.back()) return;
      if (n.node == ring_.softmax) {
        const auto weights = result_buffer(n, 0);
        emit(n.node, "BlockWeights", {operand(n, 0), b_.row_sums_.at(&ring_)}, {weights});
        made_[b_.g_[n.node].outputs[0]] = weights;
        continue;
      }
      emit_own(n);
    }
  }

  void differentiate() {
    for (const RingNode& n : ring_.backward) {
      if (n.node == ring_.softmax_gradient) {
        const auto gradient = result_buffer(n, 0);
        emit(n.node, "BlockSoftmaxGrad", {operand(n, 0), operand(n, 1), dot_}, {gradient});
        made_[b_.g_[n.node].outputs[0]] = gradient;
        continue;
      }
      emit_own(n);
      for (std::size_t o = 0; o < n.results.size(); ++o)
        if (n.results[o].role == KeyRole::Whole) add_rows(n.node, b_.g_[n.node].outputs[o]);
    }
  }

  /// What belongs to this rank's rows is summed over the turns.
  void add_rows(NodeId node, TensorId t) {
    const auto part = b_.plain(made_.at(t), body_);
    const auto [sum, first] = sums_.try_emplace(t, part);
    if (!first) add(node, sum->second, part);
  }

  /// In its first turn after the own block a sum begins here; afterwards it comes from the rank before.
  void pass_gradient(Gradient& g) {
    auto& travels = g.travels;
    const auto made = made_.find(travels.tensor);
    const auto part = made == made_.end() ? kNoBuffer : b_.plain(made->second, body_);
    if (turn_ == 0) return void(g.own = part != kNoBuffer ? part : zeros(g.node, b_.describe(travels.tensor, body_)));
    if (turn_ == 1)
      travels.now = part != kNoBuffer ? part : zeros(g.node, travelling(travels, turn_));
    else {
      arrive(travels, turn_);
      if (part != kNoBuffer) add(g.node, travels.now, part);
    }
    depart(travels);
  }

  void finish_gradient(Gradient& g) {
    arrive(g.travels, ranks_);
    add(g.node, g.own, g.travels.now);
    b_.buffers_[plain_key(g.travels.tensor)] = g.own;
  }

  BufferIndex zeros(NodeId node, Buffer like) {
    const auto b = b_.new_buffer(std::move(like), nullptr);
    emit(node, "ConstantOfShape", {}, {b});
    return b;
  }

  // ---- messages

  void load(const std::vector<RingNode>& nodes, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
      const RingNode& n = nodes[k];
      for (std::size_t i = 0; i < n.operands.size(); ++i) {
        const TensorId t = b_.g_[n.node].inputs[i];
        if (n.operands[i].role != KeyRole::Passed || traveller(t)) continue;
        const auto own = b_.plain(b_.operand(n.node, i, body_), body_);
        travellers_.push_back(traveller_of(t, n.operands[i].dim, b_.role_.buffers[own].layout));
        travellers_.back().now = own;
      }
      for (std::size_t o = 0; o < n.results.size(); ++o)
        if (n.results[o].role == KeyRole::Passed) gradients_.push_back({n.node, gradient_of(n, o), kNoBuffer});
    }
  }

  [[nodiscard]] Traveller gradient_of(const RingNode& n, std::size_t o) const {
    const TensorId t = b_.g_[n.node].outputs[o];
    return traveller_of(t, n.results[o].dim, b_.c_.sharding.layout(t));
  }

  [[nodiscard]] Traveller* traveller(TensorId t) {
    const auto at = std::find_if(travellers_.begin(), travellers_.end(), [&](const Traveller& x) { return x.tensor == t; });
    return at == travellers_.end() ? nullptr : &*at;
  }

  /// The next turn's blocks are on their way while kernels use this one's.
  void begin_turn() {
    made_.clear();
    cuts_.clear();
    if (b_.c_.plan.overlap && turn_ + 1 < ranks_)
      for (auto& t : travellers_) depart(t);
  }

  void end_turn() {
    if (turn_ + 1 == ranks_) return;
    for (auto& t : travellers_) {
      if (!b_.c_.plan.overlap) depart(t);
      arrive(t, turn_ + 1);
    }
  }

  void depart(Traveller& t) {
    Redistribution r;
    r.tensor = t.tensor;
    r.from = r.to = t.layout;
    r.axis = ring_.axis;
    r.kind = ConversionKind::Shift;
    r.turn = turn(t.dim);
    Buffer vector = b_.message_vector(r);
    for (const auto& at : b_.at_) vector.shapes.push_back({packing_of(b_.c_.sharding, r, at).count});
    set_bytes(vector);
    t.redistribution = static_cast<std::int32_t>(b_.role_.redistributions.size());
    t.message = b_.new_buffer(std::move(vector), nullptr);
    b_.role_.redistributions.push_back(std::move(r));
    b_.emit_copy({InstructionKind::Pack, t.redistribution}, {t.now}, {t.message}, body_);
    b_.emit_collective({ring_.axis, ConversionKind::Shift, {}, {}}, t.redistribution, {}, t.message, body_);
  }

  void arrive(Traveller& t, std::int32_t number) {
    t.now = b_.new_buffer(travelling(t, number), nullptr);
    b_.emit_copy({InstructionKind::Unpack, t.redistribution}, {t.message}, {t.now}, body_);
  }

  RoleBuilder& b_;
  const AttentionRing& ring_;
  std::uint16_t body_;
  std::int32_t ranks_, turn_ = 0;
  std::vector<Traveller> travellers_;
  std::vector<Gradient> gradients_;
  std::map<TensorId, BufferIndex> made_;     ///< in this turn
  std::map<BufferIndex, BufferIndex> cuts_;  ///< of whole operands: this turn's block
  std::map<TensorId, BufferIndex> sums_;     ///< over the turns
  BufferIndex result_ = kNoBuffer, row_sums_ = kNoBuffer, dot_ = kNoBuffer;
};

void RoleBuilder::attend_in_ring(const AttentionRing& ring, std::uint16_t body) { RingPass(*this, ring, body).forward(); }

/// A ring begins where the first of its backward nodes stands, or the last of its forward ones: what comes from outside is there, and
/// nobody outside asks before.
bool RoleBuilder::lower_in_ring(NodeId n, std::uint16_t body) {
  const AttentionRing* ring = c_.sharding.ring_of(n);
  if (!ring) return false;
  if (n == ring->forward.back().node) attend_in_ring(*ring, body);
  if (!ring->backward.empty() && n == ring->backward.front().node) RingPass(*this, *ring, body).backward();
  return true;
}

BufferIndex RoleBuilder::kept_result(TensorId t, std::uint16_t body) {
  if (lies_at(t) == kNoBuffer) recompute(t, body);
  ensure(lies_at(t) != kNoBuffer, "a result is in memory, or can be recomputed");
  return lies_at(t);
}

}  // namespace rehearsal::plan
