#include "exec/executor.hpp"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "exec/block_moves.hpp"
#include "exec/comm/transfers.hpp"
#include "exec/local_memory.hpp"
#include "exec/stashes.hpp"
#include "plan/collectives/exchange.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;
using plan::BufferIndex;
using plan::Instruction;
using plan::InstructionKind;

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

bool communicates(const Instruction& i) {
  return i.kind == InstructionKind::Send || i.kind == InstructionKind::Receive || i.kind == InstructionKind::Collective;
}

/// An instruction made ready.
struct Prepared {
  std::vector<std::shared_ptr<Kernel>> kernels;          ///< by variant
  std::vector<std::vector<plan::CollectiveStep>> steps;  ///< of collectives, by variant
  std::vector<int> group;
};

}  // namespace

class Executor::Impl {
 public:
  Impl(const Training& training, const CpuBackend& backend, const ExecutorOptions& options)
      : program_(training.program),
        g_(training.graph.graph),
        backend_(backend),
        world_(training.world),
        options_(options),
        role_(program_.role(world_.rank())),
        crosses_steps_(plan::crosses_steps(program_)),
        memory_(role_),
        transfers_(world_, plan::kSegmentBytes, memory_.arrivals()),
        moves_(program_, world_.rank()),
        origin_of_(role_.buffers.size()) {
    omp_set_num_threads(options.threads);  // loops outside the kernels too: ranks share the cores, and a team that spins starves the others
    prepare();
    set_initial_values();
  }

  StepResult step(const StepRow& row, std::int64_t step, DataSource& data, bool record) {
    now_.step = step;
    row_end_ = row.end;
    data_ = &data;
    record_ = record;
    result_ = {};
    result_.loss = std::numeric_limits<double>::quiet_NaN();
    result_.begin = now_seconds();
    if (step == row.first)
      for (const auto& slot : role_.opening) play(slot);
    for (const auto& slot : role_.slots) play(slot);
    if (!crosses_steps_ || step + 1 == row.end) transfers_.wait_all();
    result_.end = now_seconds();
    take_finished();
    if (tickets_.empty()) transfers_.forget();
    done_ = step + 1;
    return std::move(result_);
  }

  /// The rate is an attribute of the nodes that update parameters: another rate, other kernels.
  void set_rate(double factor) {
    if (factor == rate_) return;
    rate_ = factor;
    for (std::size_t b = 0; b < role_.bodies.size(); ++b)
      for (std::size_t n = 0; n < role_.bodies[b].instructions.size(); ++n) {
        const auto& i = role_.bodies[b].instructions[n];
        if (i.kind != InstructionKind::Kernel || g_[i.node].phase != graph::Phase::Update || !g_[i.node].attributes.has("lr")) continue;
        auto& p = prepared_[b][n];
        for (std::size_t v = 0; v < p.kernels.size(); ++v) p.kernels[v] = make_kernel(i, v);
      }
    backend_.forget();
  }
  [[nodiscard]] std::int64_t arena_bytes() const { return memory_.bytes() + transfers_.allocated_bytes(); }

  std::span<std::byte> stored(TensorId t, int age) {
    const auto* b = stored_buffer(t);
    return b == nullptr ? std::span<std::byte>() : memory_.stored(*b, done_ - age);
  }

  void set_stored(TensorId t, std::span<const std::byte> block, int age) {
    for (const auto& b : role_.buffers)
      if (is_stored(b) && b.tensor == t) std::memcpy(memory_.stored(b, done_ - age).data(), block.data(), block.size());
  }

  void continue_after(std::int64_t steps) { done_ = steps; }

  [[nodiscard]] const plan::Buffer* stored_buffer(TensorId t) const {
    for (const auto& b : role_.buffers)
      if (is_stored(b) && b.tensor == t) return &b;
    return nullptr;
  }

  [[nodiscard]] plan::Region stored_region(TensorId t) const {
    return plan::region(program_, *stored_buffer(t), plan::position(program_, world_.rank(), 0));
  }

  [[nodiscard]] TensorView result(TensorId t) const {
    for (BufferIndex b = 0; b < role_.buffers.size(); ++b) {
      const auto& buffer = role_.buffers[b];
      if (buffer.tensor == t && lifetime_of(b) != plan::Lifetime::Transient) return {data(b), &g_[t].type, buffer.format, nullptr, nullptr};
    }
    return {};
  }

  [[nodiscard]] std::vector<TensorId> stored_tensors() const {
    std::vector<TensorId> tensors;
    for (const auto& b : role_.buffers)
      if (is_stored(b)) tensors.push_back(b.tensor);
    return tensors;
  }

 private:
  struct Started {
    Ticket ticket{};
    std::int64_t step = 0;
    std::uint16_t body = 0;
    std::uint32_t instruction = 0;
    std::int32_t micro_batch = 0;
  };

  // ---- preparation

  void prepare() {
    for (const auto& b : role_.buffers) {
      auto& types = types_.emplace_back();
      for (const auto& shape : b.shapes) types.push_back({b.dtype, shape});
    }
    prepared_.resize(role_.bodies.size());
    for (std::size_t b = 0; b < role_.bodies.size(); ++b) {
      const auto variants = plan::per_micro_batch(role_.bodies[b].kind) ? role_.variant_samples.size() : 1;
      for (const auto& i : role_.bodies[b].instructions) prepared_[b].push_back(prepare_one(i, variants));
    }
    backend_.forget();
  }

  Prepared prepare_one(const Instruction& i, std::size_t variants) {
    Prepared p;
    if (i.kind == InstructionKind::Kernel)
      for (std::size_t v = 0; v < variants; ++v) p.kernels.push_back(make_kernel(i, v));
    if (i.kind == InstructionKind::Collective) prepare_collective(i, variants, p);
    return p;
  }

  [[nodiscard]] const graph::TensorType& type_of(BufferIndex b, std::size_t variant) const {
    return types_[b][std::min(variant, types_[b].size() - 1)];
  }

  std::shared_ptr<Kernel> make_kernel(const Instruction& i, std::size_t variant) {
    const auto& node = g_[i.node];
    const auto type = [&](BufferIndex b) { return b == plan::kNoBuffer ? std::nullopt : std::optional(type_of(b, variant)); };
    std::vector<std::optional<graph::TensorType>> inputs, outputs;
    std::transform(i.inputs.begin(), i.inputs.end(), std::back_inserter(inputs), type);
    std::transform(i.outputs.begin(), i.outputs.end(), std::back_inserter(outputs), type);
    const auto& info = role_.kernels[static_cast<std::size_t>(i.kernel)];
    auto attributes = plan::attributes_of(role_, i, node);
    if (rate_ != 1) attributes.set("lr", node.attributes.number("lr", 0) * rate_);
    const KernelRequest request{
        plan::schema_of(role_, i, node), attributes, inputs, outputs, info.input_formats, info.output_formats, options_.threads};
    auto kernel = backend_.make(info.implementation, request);
    if (kernel->workspace_bytes() > info.workspace_bytes)
      throw InternalError("kernel " + info.implementation + " of " + node.name + " wants more workspace than the plan gave it");
    return kernel;
  }

  void prepare_collective(const Instruction& i, std::size_t variants, Prepared& p) {
    const auto& info = role_.collectives[static_cast<std::size_t>(i.collective)];
    p.group = plan::group(program_, world_.rank(), info.axis);
    for (std::size_t v = 0; v < variants; ++v) {
      const auto micro_batch = static_cast<int>(std::find(role_.variant_of.begin(), role_.variant_of.end(), v) - role_.variant_of.begin());
      const auto type = type_of(i.outputs.front(), v);
      const auto count = graph::element_count(type.shape);
      const auto bytes = static_cast<double>(size_of(type.dtype));
      p.steps.push_back(plan::steps_of(program_, info, role_, {world_.rank(), micro_batch, count, bytes, world_.ranks_per_node(p.group)}));
    }
  }

  void set_initial_values() {
    for (const auto& b : role_.buffers) {
      if (!is_stored(b)) continue;
      const auto& tensor = g_[b.tensor];
      if (!tensor.contents.known()) throw InternalError("tensor " + tensor.name + " has no initial values");
      const graph::RandomStream source{options_.seed, graph::initial_stream(tensor.name)};
      set_initial_value(b, source);
      for (int age = 1; age < b.versions; ++age)
        std::memcpy(memory_.stored(b, done_ - age).data(), memory_.stored(b, done_).data(), static_cast<std::size_t>(b.bytes));
    }
  }

  void set_initial_value(const plan::Buffer& b, const graph::RandomStream& source) {
    const auto& tensor = g_[b.tensor];
    auto* to = memory_.stored(b, done_).data();
    if (b.shapes.front() == tensor.type.shape) return graph::read_into(tensor.contents, tensor.type.shape, b.dtype, source, to);
    std::vector<std::byte> whole(static_cast<std::size_t>(graph::size_of(tensor.type).value()));
    graph::read_into(tensor.contents, tensor.type.shape, b.dtype, source, whole.data());
    const auto mine = plan::region(program_, b, plan::position(program_, world_.rank(), 0));
    exec::run(plan::BlockCopy(plan::whole_region(tensor.type.shape), mine), size_of(b.dtype), whole.data(), to);
  }

  // ---- playing

  void play(const plan::Slot& slot) {
    slot_ = slot;
    const auto& body = role_.bodies[slot.body];
    per_micro_batch_ = plan::per_micro_batch(body.kind);
    now_.slot_step = now_.step + slot.micro_batch / program_.micro_batches;
    if (now_.slot_step >= row_end_) return;
    micro_batch_ = slot.micro_batch % program_.micro_batches;
    // Of steps that overlap each micro-batch has its own number; what a step's update reads is of its last one.
    now_.saved = per_micro_batch_ || !crosses_steps_ ? micro_batch_ : program_.micro_batches - 1;
    if (crosses_steps_) now_.saved += now_.slot_step * program_.micro_batches;
    if (body.kind == plan::BodyKind::Forward) free_saved_slot();
    if (crosses_steps_) await_versions(body);
    for (std::uint32_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      if (plan::runs(program_, i, micro_batch_)) play_one(i, n);
    }
  }

  /// The saved buffers of an earlier micro-batch are about to be written again: what it still sends must have left.
  void free_saved_slot() {
    const auto earlier = number_of(slot_.micro_batch) - role_.memory.in_flight;
    for (const auto& [key, s] : tickets_)
      if (std::get<2>(key) == earlier && plan::per_micro_batch(role_.bodies[s.body].kind)) await(s.ticket);
  }

  /// Of all micro-batches of all steps: what is under way may outlast its step where there is no flush.
  [[nodiscard]] std::int64_t number_of(int micro_batch) const { return now_.step * program_.micro_batches + micro_batch; }

  /// Weights that an earlier step's update sends or receives: they must be there when a pass uses them, and gone when they are overwritten.
  void await_versions(const plan::Body& body) {
    const bool updates = body.kind == plan::BodyKind::Update;
    const auto before = updates ? now_.step : now_.slot_step - role_.delay;
    for (const auto& [key, s] : tickets_)
      if (s.step < before && role_.bodies[s.body].kind == plan::BodyKind::Update) await(s.ticket);
  }

  void await(Ticket ticket) {
    while (!transfers_.done(ticket)) transfers_.idle();
  }

  void await_dependencies(const Instruction& i) {
    for (const auto& d : i.after) {
      if (!communicates(role_.bodies[d.body].instructions[d.instruction])) continue;
      const bool same = per_micro_batch_ && plan::per_micro_batch(role_.bodies[d.body].kind);
      const auto& body = role_.bodies[d.body];
      const int m = same ? slot_.micro_batch : plan::per_micro_batch(body.kind) ? plan::last_micro_batch(program_, body) : 0;
      if (const auto at = tickets_.find({d.body, d.instruction, number_of(m)}); at != tickets_.end()) await(at->second.ticket);
    }
  }

  void play_one(const Instruction& i, std::uint32_t n) {
    await_dependencies(i);
    const double begin = record_ ? now_seconds() : 0, cpu = record_ ? thread_seconds() : 0;
    if (communicates(i)) {
      start(i, n);
      transfers_.progress();
      return;
    }
    compute(i, prepared_[slot_.body][n]);
    if (record_) result_.played.push_back({slot_.body, n, slot_.micro_batch, begin, now_seconds(), thread_seconds() - cpu});
    transfers_.progress();
  }

  void compute(const Instruction& i, Prepared& p) {
    const auto from = [&]() -> const graph::TensorType& { return type_of(i.inputs.front(), variant()); };
    const auto to = [&]() -> const graph::TensorType& { return type_of(i.outputs.back(), variant()); };
    switch (i.kind) {
      case InstructionKind::Kernel:
        return run_kernel(i, p);
      case InstructionKind::Reorder:
        return reorder({data(i.inputs[0]), data(i.outputs[0]), role_.buffers[i.inputs[0]].format, role_.buffers[i.outputs[0]].format},
                       from(), options_.threads);
      case InstructionKind::Accumulate:
        return add_up(i, from().dtype);
      case InstructionKind::Load:
        return load(i, to());
      case InstructionKind::Slice:
      case InstructionKind::Pack:
      case InstructionKind::Unpack:
        for (const auto& move : moves_.of(i, per_micro_batch_ ? micro_batch_ : 0))
          exec::run(move.copy, size_of(to().dtype), data(i.inputs[move.input]), data(i.outputs[move.output]));
        return;
      case InstructionKind::Mask:
        return mask(i, to());
      case InstructionKind::Stash:
      case InstructionKind::Restore:
        if (const auto dense = copy_stash({from(), to()}, data(i.inputs[0]), data(i.outputs[0])))
          refuse_dense({g_[i.tensor].name, dense, graph::element_count(from().shape), world_.rank(), now_.slot_step}, program_.plan);
        return;
      case InstructionKind::Report:
        result_.loss = *static_cast<const double*>(data(i.inputs[0]));
        return;
      default:
        throw InternalError("an instruction that does not compute");
    }
  }

  /// The first micro-batch copies.
  void add_up(const Instruction& i, DType dtype) {
    const bool first = per_micro_batch_ && micro_batch_ == role_.bodies[slot_.body].first;
    for (const auto& m : moves_.of(i, per_micro_batch_ ? micro_batch_ : 0))
      first ? exec::run(m.copy, size_of(dtype), data(i.inputs[0]), data(i.outputs[0]))
            : exec::add(m.copy, {dtype, options_.threads}, data(i.inputs[0]), data(i.outputs[0]));
  }

  void run_kernel(const Instruction& i, Prepared& p) {
    inputs_.clear();
    outputs_.clear();
    for (const auto b : i.inputs) inputs_.push_back(view(b));
    for (const auto b : i.outputs) outputs_.push_back(view(b));
    RunContext context{options_.seed, now_.slot_step, i.workspace == plan::kNoBuffer ? nullptr : data(i.workspace)};
    p.kernels[std::min(variant(), p.kernels.size() - 1)]->run(inputs_, outputs_, context);
  }

  TensorView view(BufferIndex b) {
    if (b == plan::kNoBuffer) return {};
    const auto& buffer = role_.buffers[b];
    TensorView v{data(b), &type_of(b, variant()), buffer.format, nullptr, nullptr};
    const bool is_part = std::any_of(buffer.layout.begin(), buffer.layout.end(), [](const plan::AxisLayout& l) { return l.split(); });
    if (is_part || buffer.turn.any()) {
      v.origin = &origin(b);
      v.global_shape = &g_[buffer.tensor].type.shape;
    }
    return v;
  }

  const graph::Shape& origin(BufferIndex b) {
    auto& known = origin_of_[b];
    const int micro_batch = per_micro_batch_ ? micro_batch_ : 0;
    if (known.micro_batch == micro_batch) return known.first;
    known = {micro_batch, {}};
    for (const auto& set : plan::region(program_, role_.buffers[b], plan::position(program_, world_.rank(), micro_batch)))
      known.first.push_back(set.empty() ? 0 : set.front().begin);
    return known.first;
  }

  /// Samples are read whole, one at a time where this rank wants a part of each: there is room for one.
  void load(const Instruction& i, const graph::TensorType& type) {
    const auto& buffer = role_.buffers[i.outputs[0]];
    const auto& global = g_[i.tensor].type.shape;
    const auto mine = plan::region(program_, buffer, plan::position(program_, world_.rank(), per_micro_batch_ ? micro_batch_ : 0));
    const plan::Range rows =
        mine.empty() || mine.front().empty() ? plan::Range{0, 1} : plan::Range{mine.front().front().begin, mine.front().back().end};
    graph::TensorType read = type;
    if (!global.empty()) {
      read.shape = global;
      read.shape.front() = rows.count();
    }
    if (read.shape == type.shape)
      return data_->read({g_[i.tensor].name, type, now_.slot_step, rows.begin, rows.count()}, data(i.outputs[0]));
    auto part = type;
    part.shape.front() = read.shape.front() = 1;
    const auto whole = plan::whole_region(read.shape);
    auto wanted = mine;
    wanted.front() = whole.front();
    const plan::BlockCopy copy(whole, wanted);
    std::vector<std::byte> sample(static_cast<std::size_t>(graph::size_of(read).value()));
    auto* to = static_cast<std::byte*>(data(i.outputs[0]));
    for (const auto& [begin, end] : mine.front())
      for (auto row = begin; row < end; ++row, to += static_cast<std::size_t>(graph::size_of(part).value())) {
        data_->read({g_[i.tensor].name, read, now_.slot_step, row, 1}, sample.data());
        exec::run(copy, size_of(type.dtype), sample.data(), to);
      }
  }

  /// One of the coordinates that share a tensor keeps it, for the others it is zero: their sum is the tensor.
  void mask(const Instruction& i, const graph::TensorType& type) {
    const auto bytes = static_cast<std::size_t>(graph::size_of(type).value());
    if (plan::position(program_, world_.rank(), 0)[static_cast<std::size_t>(i.axis)] == 0)
      std::memcpy(data(i.outputs[0]), data(i.inputs[0]), bytes);
    else
      std::memset(data(i.outputs[0]), 0, bytes);
  }

  void start(const Instruction& i, std::uint32_t n) {
    Started s{{}, now_.step, slot_.body, n, slot_.micro_batch};
    const auto& name = i.tensor == TensorId::None ? kNothing : g_[i.tensor].name;
    if (i.kind == InstructionKind::Collective) {
      auto& p = prepared_[slot_.body][n];
      const auto& type = type_of(i.outputs.back(), variant());
      s.ticket = transfers_.start_collective(
          {&p.steps[std::min(variant(), p.steps.size() - 1)], p.group, data(i.outputs[0]), type.dtype, graph::element_count(type.shape),
           role_.collectives[static_cast<std::size_t>(i.collective)].reduction},
          name);
    } else {
      const auto& info = role_.messages[static_cast<std::size_t>(i.message)];
      const int other = plan::peer(program_, world_.rank(), info);
      const auto bytes = static_cast<std::size_t>(plan::message_bytes(role_, i, variant()));
      const int tag = static_cast<int>(
          info.channel % 32749U);  // messages of equal tag keep their order, so a clash is harmless within one micro-batch order
      s.ticket = i.kind == InstructionKind::Send ? transfers_.start_send(other, data(i.inputs[0]), bytes, tag, name)
                                                 : transfers_.start_receive(other, data(i.outputs[0]), bytes, tag, name);
    }
    tickets_[{slot_.body, n, number_of(slot_.micro_batch)}] = s;
  }

  /// What has ended belongs to the step that began it.
  void take_finished() {
    std::erase_if(tickets_, [&](const auto& entry) {
      const Started& s = entry.second;
      if (!transfers_.done(s.ticket)) return false;
      const auto times = transfers_.times(s.ticket);
      const predict::TimedInstruction ended{s.body, s.instruction, s.micro_batch, times.start, times.end, 0};
      if (record_ && s.step == now_.step) result_.played.push_back(ended);
      if (record_ && s.step < now_.step) result_.late.emplace_back(s.step, ended);
      return true;
    });
  }

  [[nodiscard]] std::size_t variant() const { return per_micro_batch_ ? plan::variant_of_micro_batch(role_, micro_batch_) : 0; }

  [[nodiscard]] void* data(BufferIndex b) const { return memory_.at(b, now_); }

  [[nodiscard]] plan::Lifetime lifetime_of(BufferIndex b) const {
    while (role_.buffers[b].part_of != plan::kNoBuffer) b = role_.buffers[b].part_of;
    return role_.buffers[b].lifetime;
  }

  inline static const std::string kNothing;
  const plan::Program& program_;
  const graph::Graph& g_;
  const CpuBackend& backend_;
  Communicator& world_;
  ExecutorOptions options_;
  const plan::Role& role_;
  bool crosses_steps_;
  LocalMemory memory_;
  Transfers transfers_;
  std::vector<std::vector<graph::TensorType>> types_;  ///< by buffer, by variant
  std::vector<std::vector<Prepared>> prepared_;
  plan::Slot slot_;
  int micro_batch_ = 0;
  Moment now_;
  std::int64_t row_end_ = 1, done_ = 0;  ///< done_: steps that were
  bool per_micro_batch_ = false, record_ = false;
  double rate_ = 1;
  DataSource* data_ = nullptr;
  StepResult result_;
  std::map<std::tuple<std::uint16_t, std::uint32_t, std::int64_t>, Started> tickets_;  ///< by body, instruction, number_of()
  std::vector<TensorView> inputs_, outputs_;
  BlockMoves moves_;
  struct Origin {
    int micro_batch = -1;
    graph::Shape first;
  };
  std::vector<Origin> origin_of_;  ///< by buffer: of the micro-batch that was asked for last
};

int threads_per_rank(const Communicator& world) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / world.local_size());
}

Executor::Executor(const Training& training, const CpuBackend& backend, const ExecutorOptions& options)
    : impl_(std::make_unique<Impl>(training, backend, options)) {}
Executor::~Executor() = default;
StepResult Executor::step_in_row(const StepRow& row, std::int64_t step, DataSource& data, bool record) {
  return impl_->step(row, step, data, record);
}
void Executor::set_rate(double factor) { impl_->set_rate(factor); }
std::int64_t Executor::arena_bytes() const { return impl_->arena_bytes(); }
std::span<std::byte> Executor::stored(TensorId tensor, int age) { return impl_->stored(tensor, age); }
void Executor::set_stored(TensorId tensor, std::span<const std::byte> block, int age) { impl_->set_stored(tensor, block, age); }
int Executor::versions(TensorId tensor) const {
  const auto* b = impl_->stored_buffer(tensor);
  return b == nullptr ? 1 : b->versions;
}
void Executor::continue_after(std::int64_t steps) { impl_->continue_after(steps); }
plan::Region Executor::stored_region(TensorId tensor) const { return impl_->stored_region(tensor); }
const plan::Layout& Executor::stored_layout(TensorId tensor) const { return impl_->stored_buffer(tensor)->layout; }
TensorView Executor::result(TensorId tensor) const { return impl_->result(tensor); }
std::vector<TensorId> Executor::stored_tensors() const { return impl_->stored_tensors(); }

}  // namespace rehearsal::exec
