#include "plan/lowering/bidirectional.hpp"

#include <algorithm>
#include <array>

#include "plan/lowering/sharded_gradients.hpp"

namespace rehearsal::plan {
namespace {

/// Appends what the second copy does to what the first one does.
class Merging {
 public:
  /// `stages`: of the pipeline. The copy whose part lies deeper in the model is done first.
  Merging(Role first, Role second, int stages)
      : role_(std::move(first)), second_(std::move(second)), second_is_deeper_(2 * role_.stage < stages) {}

  Role merge() && {
    take_buffers();
    append(role_.kernels, second_.kernels, [](KernelInfo&) {});
    append(role_.collectives, second_.collectives, [this](CollectiveInfo& c) { shift(c.redistribution, redistributions_); });
    append(role_.attributes, second_.attributes, [](graph::Attributes&) {});
    append(role_.messages, second_.messages, [](MessageInfo&) {});
    append(role_.redistributions, second_.redistributions, [](Redistribution&) {});
    for (auto& body : second_.bodies)
      for (auto& i : body.instructions) shift_references(i);
    order_bodies();
    return std::move(role_);
  }

 private:
  template <class T, class Change>
  static void append(std::vector<T>& to, std::vector<T>& from, Change change) {
    for (auto& entry : from) {
      change(entry);
      to.push_back(std::move(entry));
    }
  }
  template <class Index>
  static void shift(Index& index, std::size_t by) {
    if (index != static_cast<Index>(-1)) index += static_cast<Index>(by);
  }

  void take_buffers() {
    append(role_.buffers, second_.buffers, [this](Buffer& b) { shift(b.part_of, buffers_); });
  }

  void shift_references(Instruction& i) const {
    for (auto& b : i.inputs) shift(b, buffers_);
    for (auto& b : i.outputs) shift(b, buffers_);
    shift(i.workspace, buffers_);
    shift(i.kernel, kernels_);
    shift(i.attributes, attributes_);
    shift(i.message, messages_);
    shift(i.collective, collectives_);
    shift(i.redistribution, redistributions_);
  }

  /// Both copies' loops, one exchange of both, both updates. In the exchange everything is sent before anything is waited for: the
  /// rank with the other halves does the same.
  void order_bodies() {
    const auto count = role_.bodies.size();
    const auto exchange = count - 2, update = count - 1;
    std::vector<Body> ordered;
    std::vector<std::uint16_t> moved(2 * count);  // by body, the second copy's last
    const auto take = [&](int copy, std::size_t b) {
      moved[static_cast<std::size_t>(copy) * count + b] = static_cast<std::uint16_t>(ordered.size());
      auto& body = ordered.emplace_back(std::move(copy == 0 ? role_.bodies[b] : second_.bodies[b]));
      body.chunk = static_cast<std::uint16_t>(copy);
      body.first = copy;
      body.every = 2;
    };
    for (int copy = 0; copy < 2; ++copy)
      for (std::size_t b = 0; b < exchange; ++b) take(copy, b);
    moved[exchange] = moved[count + exchange] = static_cast<std::uint16_t>(ordered.size());
    const auto places = join_exchanges(role_.bodies[exchange].instructions, second_.bodies[exchange].instructions);
    ordered.push_back({BodyKind::Update, 0, std::move(joined_)});
    for (int copy = 0; copy < 2; ++copy) take(copy, update);
    const std::size_t of_second = moved[count];  // the second copy's bodies stand between here and the exchange
    for (std::size_t b = 0; b < ordered.size(); ++b) {
      const bool joint = b == moved[exchange];
      for (std::size_t n = 0; n < ordered[b].instructions.size(); ++n) {
        const bool second = joint ? is_second_[n] : b == moved[count + update] || (b >= of_second && b < moved[exchange]);
        for (auto& d : ordered[b].instructions[n].after) {
          if (d.body == exchange) d.instruction = places[second ? 1 : 0][d.instruction];
          d.body = moved[(second ? count : 0) + d.body];
        }
      }
    }
    role_.bodies = std::move(ordered);
  }

  /// New places of both copies' instructions, in joined_: what came in 16 bits or goes so, what is sent, what is received, what is added.
  /// The deeper part's first: its sums can be on their way while the other copy's last passes run, and the rank with the other halves has
  /// them in the same order.
  std::array<std::vector<std::uint32_t>, 2> join_exchanges(std::vector<Instruction>& first, std::vector<Instruction>& second) {
    std::array<std::vector<std::uint32_t>, 2> places{std::vector<std::uint32_t>(first.size()), std::vector<std::uint32_t>(second.size())};
    const auto turn = [](const Instruction& i) {
      constexpr std::array kFirst{InstructionKind::Kernel, InstructionKind::Send, InstructionKind::Receive};
      const auto kind = i.kind == InstructionKind::Restore ? InstructionKind::Kernel : i.kind;
      return std::find(kFirst.begin(), kFirst.end(), kind) - kFirst.begin();
    };
    for (const int now : {0, 1, 2, 3})
      for (const bool deeper : {true, false}) {
        const std::size_t copy = deeper == second_is_deeper_ ? 1 : 0;
        auto& list = copy == 0 ? first : second;
        for (std::size_t n = 0; n < list.size(); ++n) {
          if (turn(list[n]) != now) continue;
          places[copy][n] = static_cast<std::uint32_t>(joined_.size());
          joined_.push_back(list[n]);
          is_second_.push_back(copy == 1);
        }
      }
    return places;
  }

  Role role_, second_;
  bool second_is_deeper_;
  std::vector<Instruction> joined_;
  std::vector<bool> is_second_;
  const std::size_t buffers_ = role_.buffers.size(), kernels_ = role_.kernels.size(), attributes_ = role_.attributes.size(),
                    messages_ = role_.messages.size(), collectives_ = role_.collectives.size(),
                    redistributions_ = role_.redistributions.size();
};

}  // namespace

Role joined_copies(Role first, Role second, int stages) { return Merging(std::move(first), std::move(second), stages).merge(); }

/// What this stage has added up over its micro-batches, the rank with its other copy has over the others: both send theirs and add the
/// other's.
void RoleBuilder::add_up_both_copies() {
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) widen_bucket(bucket, exchange_);
  std::vector<BufferIndex> sums;
  for (const auto& body : role_.bodies)
    for (const auto& i : body.instructions)
      if (i.kind == InstructionKind::Accumulate && std::find(sums.begin(), sums.end(), base(i.outputs.front())) == sums.end())
        sums.push_back(base(i.outputs.front()));
  const int other = c_.plan.pp - 1 - stage_;
  std::vector<std::pair<BufferIndex, Dependency>> arrived;  // and when ours has left
  for (const BufferIndex sum : sums) {
    const auto sent = is_wide_sum(sum) ? narrowed(sum, exchange_, When::Always) : sum;
    if (sent != sum) widen(sent, sum, exchange_);  // both ranks add the same two rounded numbers, so that their copies stay alike
    role_.buffers[sent].sent = role_.buffers[sent].sent || sent != sum;  // it is read here no more, and may still be under way
    auto send = instruction(InstructionKind::Send, role_.buffers[sum].tensor, exchange_, {sent}, {});
    send.stream = Stream::Send;
    send.phase = graph::Phase::Backward;
    send.message = message(other, channel(send.tensor, stage_));
    Instruction receive = send;
    receive.kind = InstructionKind::Receive;
    receive.stream = Stream::Receive;
    receive.inputs.clear();
    Buffer others = by_itself(role_.buffers[sent]);
    others.category = MemoryCategory::Communication;
    others.lifetime = Lifetime::Transient;
    receive.outputs = {new_buffer(std::move(others), nullptr)};
    const Dependency left{exchange_, emit(exchange_, std::move(send))};
    arrived.emplace_back(receive.outputs.front(), left);
    emit(exchange_, std::move(receive));
  }
  for (std::size_t n = 0; n < sums.size(); ++n) {
    auto add = instruction(InstructionKind::Accumulate, role_.buffers[sums[n]].tensor, exchange_, {arrived[n].first}, {sums[n]});
    add.phase = graph::Phase::Backward;
    add.after = {arrived[n].second};
    emit(exchange_, std::move(add));
  }
  // With overlap replicas have added theirs up during the last backward passes: a sum of sums, whichever comes first.
  for (std::size_t bucket = 0; bucket < buckets_.size() && !c_.plan.overlap; ++bucket)
    if (buckets_[bucket].missing == 0) reduce_bucket(bucket, update_);
  dealt_gradients_->scatter_rest();
}

}  // namespace rehearsal::plan
