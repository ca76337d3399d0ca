#include "exec/play/executor.hpp"

#include <omp.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "exec/host/block_moves.hpp"
#include "exec/host/stashes.hpp"
#include "exec/play/compressed_sums.hpp"
#include "exec/play/device_messages.hpp"
#include "exec/play/flush_denormals.hpp"
#include "exec/play/initial_values.hpp"
#include "exec/play/joined_kernels.hpp"
#include "exec/play/local_memory.hpp"
#include "exec/play/non_finite_look.hpp"
#include "exec/play/operand_views.hpp"
#include "exec/play/played_times.hpp"
#include "exec/play/prepared_collective.hpp"
#include "exec/play/prepared_kernel.hpp"
#include "exec/play/sample_loading.hpp"
#include "exec/play/staged_samples.hpp"
#include "exec/play/stored_tensors.hpp"
#include "plan/memory/under_way.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;
using plan::BufferIndex;
using plan::Instruction;
using plan::InstructionKind;

/// An instruction made ready.
struct PreparedInstruction {
  std::vector<std::shared_ptr<Kernel>> kernels;  ///< by variant
  PreparedCollective collective;
};

}  // namespace

class Executor::Impl {
 public:
  Impl(const Training& training, const ComputeBackend& backend, const ExecutorOptions& options)
      : program_(training.program),
        g_(training.graph.graph),
        backend_(backend),
        world_(training.world),
        options_(options),
        role_(program_.role(world_.rank())),
        device_(backend.device()),
        memory_(role_, device_),
        stored_(role_, memory_, device_),
        kept_(program_, world_.rank(), memory_, device_),
        operands_(program_, g_, world_.rank(), memory_),
        messages_(program_, world_, device_, device_.is_host() ? memory_.arrivals() : std::span<std::byte>()),
        moves_(program_, world_.rank()),
        loading_(program_, g_, world_.rank()),
        staged_(loading_, device_),
        compressed_(program_, g_, world_.rank(), device_) {
    omp_set_num_threads(options.threads);  // loops outside the kernels too: ranks share the cores, and a team that spins starves the others
    flush_.emplace();
    prepare();
    set_initial_values(training, options.seed, memory_, device_);
  }

  StepResult step(const StepRequest& request, DataSource& data) {
    now_.step = request.step;
    parts_ = !apart_ && request.step >= program_.plan.exact_steps;
    apart_ = apart_ || parts_;
    row_end_ = request.row.end;
    data_ = &data;
    const StagedSamples::ReadingAhead reading_ahead(staged_);
    record_ = request.record;
    result_ = {};
    if (record_) times_.begin_step();
    result_.begin = now_seconds();
    if (request.step == request.row.first)
      for (const auto& slot : role_.opening) play(slot);
    bool asked = !request.may_update;
    for (const auto& slot : role_.slots) {
      const bool asks = !asked && plan::first_update(role_) == &slot;
      asked = asked || asks;
      if (asks) now_ = plan::moment_of(program_, role_, slot, now_.step);
      if (asks && !may_update(request)) {
        result_.updated = false;
        break;  // updates stand last
      }
      play(slot);
    }
    if (!asked && !may_update(request)) result_.updated = false;  // a stage that updates nothing answers, too
    world_.note({.doing = Doing::Meeting, .step = request.step, .since = now_seconds()});
    device_.wait();
    const double played = now_seconds();
    if (plan::awaited_behind_step(program_, request.step + 1 == row_end_)) messages_.wait_all();
    result_.end = now_seconds();
    result_.waited += result_.end - played;
    result_.staleness = messages_.take_staleness();
    if (record_) result_.played = times_.take();
    take_finished();
    if (tickets_.empty()) messages_.forget();
    if (result_.updated) done_ = request.step + 1;
    return std::move(result_);
  }

  /// What replicas do when they meet, once more or early.
  void meet() {
    messages_.meet_at_once(meets_ = true);
    for (const auto& slot : role_.slots)
      if (role_.bodies[slot.body].instructions.front().during == plan::During::Meetings) play(slot);
    device_.wait();
    messages_.wait_all();
    take_finished();
    messages_.meet_at_once(meets_ = false);
  }

  void progress() { messages_.progress(); }

  bool passes_are_finite(bool with_gradients) {
    if (with_gradients) messages_.wait_all();  // sums between ranks
    auto& buffers = with_gradients ? gradients_and_loss_ : loss_parts_;
    if (!buffers) buffers = results_of_passes(role_, with_gradients);
    return std::none_of(buffers->begin(), buffers->end(), [&](BufferIndex b) { return has_non_finite(b); });
  }

  std::optional<BadTensor> find_non_finite(std::int64_t step, DataSource& data) {
    watch_.emplace();
    (void)this->step({{step, step + 1}, step, false, [] { return false; }}, data);
    auto found = watch_->find();
    watch_.reset();
    return found;
  }

  /// The rate is an attribute of the nodes that update parameters: another rate, other kernels.
  void set_rate(double factor) {
    if (factor == rate_) return;
    rate_ = factor;
    for (std::size_t b = 0; b < role_.bodies.size(); ++b)
      for (std::size_t n = 0; n < role_.bodies[b].instructions.size(); ++n) {
        const auto& i = role_.bodies[b].instructions[n];
        if (!plan::follows_rate(role_, i, g_)) continue;
        auto& p = prepared_[b][n];
        for (std::size_t v = 0; v < p.kernels.size(); ++v) p.kernels[v] = make_kernel(i, v);
      }
    backend_.forget();
  }
  [[nodiscard]] std::string device() const { return device_.is_host() ? "" : device_.name(); }
  [[nodiscard]] std::string collectives() const { return messages_.devices().any() ? messages_.devices().collectives()->name() : "host"; }
  [[nodiscard]] std::int64_t arena_bytes() const { return memory_.bytes() + messages_.allocated_bytes(); }

  [[nodiscard]] const StoredTensors& stored() const { return stored_; }
  [[nodiscard]] const KeptVectors& kept() const { return kept_; }
  void read_stored(TensorId t, int age, std::byte* to) const { stored_.read(t, done_ - age, to); }
  void set_stored(TensorId t, std::span<const std::byte> block, int age) { stored_.write(t, done_ - age, block); }

  void continue_after(std::int64_t steps, std::int64_t samples) {
    done_ = steps;
    loading_.continue_at(steps, samples);
  }

  [[nodiscard]] plan::Region stored_region(TensorId t) const {
    return plan::region(program_, *stored_.buffer(t), plan::position(program_, world_.rank(), 0));
  }

  [[nodiscard]] std::optional<KeptResult> result(TensorId t) const { return stored_.result(t, g_[t].type, now_); }

 private:
  struct Begun {
    MessageTicket ticket;
    plan::UnderWay message;
  };

  // ---- preparation
  void prepare() {
    prepared_.resize(role_.bodies.size());
    for (std::size_t b = 0; b < role_.bodies.size(); ++b) {
      const auto variants = plan::per_micro_batch(role_.bodies[b].kind) ? role_.variant_samples.size() : 1;
      for (const auto& i : role_.bodies[b].instructions) prepared_[b].push_back(prepare_one(i, variants));
      joined_.push_back(joined_until(role_, role_.bodies[b], [&](std::uint32_t n) {
        const auto& kernels = prepared_[b][n].kernels;
        return kernels.size() == 1 ? kernels.front().get() : nullptr;
      }));
    }
    backend_.forget();
  }

  PreparedInstruction prepare_one(const Instruction& i, std::size_t variants) {
    PreparedInstruction p;
    if (i.kind == InstructionKind::Kernel)
      for (std::size_t v = 0; v < variants; ++v) p.kernels.push_back(make_kernel(i, v));
    if (i.kind == InstructionKind::Collective) p.collective = prepared_collective({program_, world_, messages_, operands_}, i, variants);
    return p;
  }

  [[nodiscard]] const graph::TensorType& type_of(BufferIndex b, std::size_t variant) const { return operands_.type(b, variant); }

  std::shared_ptr<Kernel> make_kernel(const Instruction& i, std::size_t variant) {
    return prepared_kernel({role_, g_, backend_, operands_, options_.threads}, i, variant, rate_);
  }

  // ---- playing
  void play(const plan::Slot& slot) {
    slot_ = slot;
    const auto& body = role_.bodies[slot.body];
    per_micro_batch_ = plan::per_micro_batch(body.kind);
    now_ = plan::moment_of(program_, role_, slot, now_.step);
    if (now_.slot_step >= row_end_) return;
    micro_batch_ = slot.micro_batch % program_.micro_batches;
    auto kind = plan::kind_of_step(program_.plan, now_.slot_step);
    kind.parts = parts_ && !meets_;
    kind.agrees = meets_;
    kind.meets = kind.meets || meets_;
    for (const auto& [key, begun] : tickets_)
      if (plan::awaited_by_slot(program_, role_, slot, now_.step, begun.message)) await(begun);
    for (std::uint32_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      if (const auto end = joined_[slot.body][n]; end > n + 1 && !record_ && !watch_) {
        n = play_together(n, end);
        continue;
      }
      const bool left_to_others = !plan::takes_part(program_, world_.rank(), i);
      if (plan::runs(program_, role_, i, micro_batch_, kind) && !left_to_others && is_due(i))
        play_one(i, n);
      else if (i.during != plan::During::Training || left_to_others)
        await_dependencies(i);  // what it would have waited for is waited for by nobody else
    }
  }

  /// Of what is made anew every few steps: not all steps of a training are steps of the optimizer.
  [[nodiscard]] bool is_due(const Instruction& i) {
    if (i.during != plan::During::Renewals) return true;
    std::int64_t step = 1;
    device_.download(&step, data(i.inputs[1]), sizeof step);
    return (step - 1) % role_.collectives[static_cast<std::size_t>(i.collective)].every == 0;
  }

  void await(const Begun& begun) {
    if (messages_.done(begun.ticket)) return;
    const auto& m = begun.message;
    const double since = now_seconds();
    world_.note({Doing::Awaiting, m.body, m.instruction, m.micro_batch, m.step, since});
    while (!messages_.done(begun.ticket)) messages_.idle();
    result_.waits.push_back({m.body, m.instruction, now_seconds() - since});
    result_.waited += result_.waits.back().seconds;
  }

  /// All ranks agree: what this takes is waiting.
  bool may_update(const StepRequest& request) {
    const double since = now_seconds();
    const bool may = request.may_update();
    result_.waited += now_seconds() - since;
    return may;
  }

  void await_dependencies(const Instruction& i) {
    for (const auto& d : i.after) {
      if (!plan::communicates(role_.bodies[d.body].instructions[d.instruction])) continue;
      const auto number = plan::number_of(program_, now_.step, plan::micro_batch_of(program_, role_, slot_, d));
      if (const auto at = tickets_.find({d.body, d.instruction, number}); at != tickets_.end()) await(at->second);
    }
  }

  void play_one(const Instruction& i, std::uint32_t n) {
    await_dependencies(i);
    world_.note({Doing::Playing, slot_.body, n, micro_batch_, now_.slot_step, now_seconds()});
    if (plan::communicates(i)) {
      start(i, n);
      messages_.progress();
      return;
    }
    if (record_) times_.begin();
    compute(i, prepared_[slot_.body][n]);
    if (watch_) look(i);
    if (record_) times_.end({slot_.body, n, slot_.micro_batch, 0, 0, 0});
    messages_.progress();
  }

  /// What always runs, and waits for nothing that the first one does not wait for. Each by itself while it is recorded or looked at.
  std::uint32_t play_together(std::uint32_t first, std::uint32_t end) {
    const auto& instructions = role_.bodies[slot_.body].instructions;
    await_dependencies(instructions[first]);
    together_.clear();
    for (auto n = first; n < end; ++n) {
      operands_.set(instructions[n], pass());
      together_.add(*prepared_[slot_.body][n].kernels.front(), operands_);
    }
    prepared_[slot_.body][first].kernels.front()->run_together(together_.runs(), run_context(nullptr));
    messages_.progress();
    return end - 1;
  }

  void compute(const Instruction& i, PreparedInstruction& p) {
    const auto from = [&]() -> const graph::TensorType& { return type_of(i.inputs.front(), variant()); };
    const auto to = [&]() -> const graph::TensorType& { return type_of(i.outputs.back(), variant()); };
    switch (i.kind) {
      case InstructionKind::Kernel:
        return run_kernel(i, p);
      case InstructionKind::Reorder:
        return device_.reorder(
            {data(i.inputs[0]), data(i.outputs[0]), role_.buffers[i.inputs[0]].format, role_.buffers[i.outputs[0]].format}, from());
      case InstructionKind::Accumulate:
        return add_up(i, from().dtype);
      case InstructionKind::Load:
        return load(i, to());
      case InstructionKind::Slice:
      case InstructionKind::Pack:
      case InstructionKind::Unpack:
        for (const auto& move : moves_.of(i, loop_micro_batch()))
          device_.copy_block(move.copy, size_of(to().dtype), data(i.inputs[move.input]), data(i.outputs[move.output]));
        return;
      case InstructionKind::Mask:
        return mask(i, to());
      case InstructionKind::Stash:
      case InstructionKind::Restore:
        if (const auto dense = device_.copy_stash({from(), to()}, data(i.inputs[0]), data(i.outputs[0])))
          refuse_dense({g_[i.tensor].name, dense, graph::element_count(from().shape), world_.rank(), now_.slot_step}, program_.plan);
        return;
      case InstructionKind::Compress:
      case InstructionKind::Recompress:
      case InstructionKind::Decompress:
        return compressed_.play(i, [this](BufferIndex b) { return data(b); }, {options_.seed, now_.slot_step});
      case InstructionKind::Report:
        device_.download(&result_.loss, data(i.inputs[0]), sizeof result_.loss);
        result_.owns_loss = true;
        return;
      default:
        throw InternalError("an instruction that does not compute");
    }
  }

  /// The first micro-batch copies.
  void add_up(const Instruction& i, DType dtype) {
    const bool first = per_micro_batch_ && micro_batch_ == role_.bodies[slot_.body].first;
    const bool copies = first && plan::sum_type(dtype) == dtype;
    for (const auto& m : moves_.of(i, loop_micro_batch()))
      copies ? device_.copy_block(m.copy, size_of(dtype), data(i.inputs[0]), data(i.outputs[0]))
             : device_.add_block(m.copy, {dtype, first}, data(i.inputs[0]), data(i.outputs[0]));
  }

  /// Read into memory of the host, from where the device takes it.
  void load(const Instruction& i, const graph::TensorType& type) {
    const auto& buffer = role_.buffers[i.outputs[0]];
    const SampleLoading::MicroBatchOfStep place{now_.slot_step, loop_micro_batch()};
    if (device_.is_host()) return loading_.load(*data_, buffer, type, place, data(i.outputs[0]));
    const int passes = watch_ || role_.variant_samples.size() > 1 ? 0 : per_micro_batch_ ? program_.micro_batches : 1;
    staged_.load(*data_, {buffer, type, place, passes}, data(i.outputs[0]));
  }

  [[nodiscard]] bool has_non_finite(BufferIndex b) const {
    return device_.has_non_finite(role_.buffers[b].dtype, data(b), graph::element_count(type_of(b, 0).shape));
  }

  void look(const Instruction& i) {
    operands_.set(i, pass());
    look_.look(*watch_, i, operands_,
               {{now_.slot_step, loop_micro_batch()}, *data_, micro_batch_, role_.bodies[slot_.body].kind == plan::BodyKind::Backward});
  }

  void run_kernel(const Instruction& i, PreparedInstruction& p) {
    operands_.set(i, pass());
    p.kernels[std::min(variant(), p.kernels.size() - 1)]->run(operands_.inputs(), operands_.outputs(),
                                                              run_context(i.workspace == plan::kNoBuffer ? nullptr : data(i.workspace)));
  }

  [[nodiscard]] RunContext run_context(void* workspace) const {
    return {options_.seed, now_.slot_step, workspace, device_.stream(), device_.fault(), loading_.first_of_batch(loop_micro_batch())};
  }

  /// One of the coordinates that share a tensor keeps it, for the others it is zero: their sum is the tensor.
  void mask(const Instruction& i, const graph::TensorType& type) {
    const auto bytes = static_cast<std::size_t>(graph::size_of(type).value());
    if (plan::position(program_, world_.rank(), 0)[static_cast<std::size_t>(i.axis)] == 0)
      device_.copy(data(i.outputs[0]), data(i.inputs[0]), bytes);
    else
      device_.clear(data(i.outputs[0]), bytes);
  }

  void start(const Instruction& i, std::uint32_t n) {
    Begun s{{}, {slot_.body, n, now_.step, slot_.micro_batch}};
    const auto& name = i.tensor == TensorId::None ? kNothing : g_[i.tensor].name;
    if (i.kind == InstructionKind::Collective) {
      s.ticket = start_collective(i, prepared_[slot_.body][n].collective, name);
    } else {
      const auto& info = role_.messages[static_cast<std::size_t>(i.message)];
      const int other = plan::peer(program_, world_.rank(), info);
      const auto bytes = static_cast<std::size_t>(plan::message_bytes(role_, i, variant()));
      const int tag = static_cast<int>(
          info.channel % 32749U);  // messages of equal tag keep their order, so a clash is harmless within one micro-batch order
      s.ticket = i.kind == InstructionKind::Send ? messages_.start_send(other, data(i.inputs[0]), bytes, tag, name)
                                                 : messages_.start_receive(other, data(i.outputs[0]), bytes, tag, name);
    }
    tickets_[{slot_.body, n, plan::number_of(program_, now_.step, slot_.micro_batch)}] = s;
  }

  MessageTicket start_collective(const Instruction& i, const PreparedCollective& p, const std::string& name) {
    const auto& type = type_of(i.outputs.back(), variant());
    const auto& info = role_.collectives[static_cast<std::size_t>(i.collective)];
    const auto count = graph::element_count(type.shape);
    const auto& steps = p.steps[std::min(variant(), p.steps.size() - 1)];
    auto* to = data(i.outputs[0]);
    if (p.at_center) return messages_.start_at_center(*p.at_center, to, name);
    if (p.device_group < 0)
      return messages_.start_collective(CollectiveCall{&steps, p.group, to, type.dtype, count, info.reduction, p.one_sided}, name);
    const auto& parts = p.parts[std::min(variant(), p.parts.size() - 1)];
    return messages_.start_collective(DeviceCollective{p.device_group, info.kind, info.reduction, to, type.dtype, count, parts, steps},
                                      name);
  }

  /// What has ended belongs to the step that began it.
  void take_finished() {
    std::erase_if(tickets_, [&](const auto& entry) {
      const auto& [ticket, message] = entry.second;
      if (!messages_.done(ticket)) return false;
      const auto times = messages_.times(ticket);
      const predict::TimedInstruction ended{message.body, message.instruction, message.micro_batch, times.start, times.end, 0};
      if (record_ && message.step == now_.step) result_.played.push_back(ended);
      if (record_ && message.step < now_.step) result_.late.emplace_back(message.step, ended);
      return true;
    });
  }

  [[nodiscard]] OperandViews::Pass pass() const { return {loop_micro_batch(), variant(), now_}; }
  [[nodiscard]] int loop_micro_batch() const { return per_micro_batch_ ? micro_batch_ : 0; }
  [[nodiscard]] std::size_t variant() const { return per_micro_batch_ ? plan::variant_of_micro_batch(role_, micro_batch_) : 0; }

  [[nodiscard]] void* data(BufferIndex b) const { return memory_.at(b, now_); }
  inline static const std::string kNothing;
  const plan::Program& program_;
  const graph::Graph& g_;
  const ComputeBackend& backend_;
  Communicator& world_;
  ExecutorOptions options_;
  std::optional<FlushDenormals> flush_;
  const plan::Role& role_;
  ComputeDevice& device_;
  LocalMemory memory_;
  StoredTensors stored_;
  KeptVectors kept_;
  OperandViews operands_;
  Messages messages_;
  std::vector<std::vector<PreparedInstruction>> prepared_;
  std::vector<std::vector<std::uint32_t>> joined_;  ///< by body and instruction
  JoinedOperands together_;
  plan::Slot slot_;
  int micro_batch_ = 0;
  plan::Moment now_;
  std::int64_t row_end_ = 1, done_ = 0;  ///< done_: steps that were
  /// apart_: later than the exact steps; parts_: in the first such step; meets_: out of turn.
  bool per_micro_batch_ = false, record_ = false, apart_ = false, parts_ = false, meets_ = false;
  PlayedTimes times_{device_};
  double rate_ = 1;
  DataSource* data_ = nullptr;
  StepResult result_;
  std::optional<std::vector<BufferIndex>> loss_parts_, gradients_and_loss_;  ///< of passes_are_finite(), once asked for
  std::optional<NonFiniteWatch> watch_;
  std::map<std::tuple<std::uint16_t, std::uint32_t, std::int64_t>, Begun> tickets_;  ///< by body, instruction, plan::number_of()
  BlockMoves moves_;
  SampleLoading loading_;
  NonFiniteLook look_{role_, g_, loading_, device_};
  StagedSamples staged_;
  CompressedSums compressed_;
};

Executor::Executor(const Training& training, const ComputeBackend& backend, const ExecutorOptions& options)
    : impl_(std::make_unique<Impl>(training, backend, options)) {}
Executor::~Executor() = default;
StepResult Executor::step(const StepRequest& request, DataSource& data) { return impl_->step(request, data); }
StepResult Executor::step(std::int64_t step, DataSource& data) { return impl_->step({{step, step + 1}, step, false, {}}, data); }
bool Executor::passes_are_finite(bool with_gradients) { return impl_->passes_are_finite(with_gradients); }
std::optional<BadTensor> Executor::find_non_finite(std::int64_t step, DataSource& data) { return impl_->find_non_finite(step, data); }
void Executor::meet() { impl_->meet(); }
void Executor::progress() { impl_->progress(); }
void Executor::set_rate(double factor) { impl_->set_rate(factor); }
std::string Executor::device() const { return impl_->device(); }
std::string Executor::collectives() const { return impl_->collectives(); }
std::int64_t Executor::arena_bytes() const { return impl_->arena_bytes(); }
std::int64_t Executor::stored_bytes(TensorId tensor) const {
  const auto* b = impl_->stored().buffer(tensor);
  return b == nullptr ? 0 : b->bytes;
}
void Executor::read_stored(TensorId tensor, int age, std::byte* to) const { impl_->read_stored(tensor, age, to); }
std::vector<std::byte> Executor::stored(TensorId tensor, int age) const {
  std::vector<std::byte> block(static_cast<std::size_t>(stored_bytes(tensor)));
  if (!block.empty()) impl_->read_stored(tensor, age, block.data());
  return block;
}
void Executor::set_stored(TensorId tensor, std::span<const std::byte> block, int age) { impl_->set_stored(tensor, block, age); }
int Executor::versions(TensorId tensor) const {
  const auto* b = impl_->stored().buffer(tensor);
  return b == nullptr ? 1 : b->versions;
}
void Executor::continue_after(std::int64_t steps, std::int64_t samples) { impl_->continue_after(steps, samples); }
plan::Region Executor::stored_region(TensorId tensor) const { return impl_->stored_region(tensor); }
const plan::Layout& Executor::stored_layout(TensorId tensor) const { return impl_->stored().buffer(tensor)->layout; }
std::optional<KeptResult> Executor::result(TensorId tensor) const { return impl_->result(tensor); }
const KeptVectors& Executor::kept() const { return impl_->kept(); }
std::vector<TensorId> Executor::stored_tensors() const { return impl_->stored().all(); }

}  // namespace rehearsal::exec
