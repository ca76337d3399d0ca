#include "exec/executor.hpp"

#include <omp.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "exec/comm/transfers.hpp"
#include "plan/collectives/collective.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;
using plan::BufferIndex;
using plan::Instruction;
using plan::InstructionKind;

/// Anonymous memory, zero-filled; given back on destruction.
class Arena {
 public:
  explicit Arena(std::int64_t bytes) : bytes_(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      throw EnvironmentFailure("memory: " + to_text(Bytes(static_cast<double>(bytes_))) +
                               " for the arena of this rank could not be had; use a plan that needs less");
    madvise(p, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(p);
  }
  ~Arena() { munmap(data_, bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  [[nodiscard]] std::byte* at(std::int64_t offset) const { return data_ + offset; }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(bytes_); }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

bool communicates(const Instruction& i) {
  return i.kind == InstructionKind::Send || i.kind == InstructionKind::Receive || i.kind == InstructionKind::Collective;
}

/// A kernel instruction made ready: kernels and operand types by variant.
struct Prepared {
  std::vector<std::unique_ptr<Kernel>> kernels;       ///< by variant
  std::vector<std::vector<graph::TensorType>> types;  ///< by variant: inputs then outputs
  std::vector<plan::CollectiveStep> steps;            ///< of collectives
  std::vector<int> group;
  bool random = false;
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
        arena_(role_.memory.arena_bytes),
        transfers_(world_) {
    omp_set_num_threads(options.threads);  // loops outside the kernels too: ranks share the cores, and a team that spins starves the others
    prepare();
    set_initial_values();
  }

  StepResult step(std::int64_t step, DataSource& data, bool record) {
    step_ = step;
    data_ = &data;
    record_ = record;
    result_ = {};
    result_.loss = std::numeric_limits<double>::quiet_NaN();
    result_.begin = now_seconds();
    tickets_.clear();
    for (const auto& slot : role_.slots) play(slot);
    transfers_.wait_all();
    result_.end = now_seconds();
    if (record_) note_communication();
    transfers_.forget();
    return std::move(result_);
  }

  [[nodiscard]] std::int64_t arena_bytes() const { return arena_.bytes(); }

  std::span<std::byte> stored(TensorId t) {
    for (const auto& b : role_.buffers)
      if (b.tensor == t && b.lifetime == plan::Lifetime::Persistent && b.part_of == plan::kNoBuffer)
        return {arena_.at(b.offset), static_cast<std::size_t>(b.bytes)};
    return {};
  }

  [[nodiscard]] std::vector<TensorId> stored_tensors() const {
    std::vector<TensorId> tensors;
    for (const auto& b : role_.buffers)
      if (b.lifetime == plan::Lifetime::Persistent && b.part_of == plan::kNoBuffer && b.tensor != TensorId::None)
        tensors.push_back(b.tensor);
    return tensors;
  }

 private:
  struct Started {
    Ticket ticket{};
    std::uint16_t body = 0;
    std::uint32_t instruction = 0;
    std::int32_t micro_batch = 0;
  };

  // ---- preparation

  void prepare() {
    prepared_.resize(role_.bodies.size());
    for (std::size_t b = 0; b < role_.bodies.size(); ++b) {
      const auto variants = plan::per_micro_batch(role_.bodies[b].kind) ? role_.variant_samples.size() : 1;
      for (const auto& i : role_.bodies[b].instructions) prepared_[b].push_back(prepare_one(i, variants));
    }
  }

  Prepared prepare_one(const Instruction& i, std::size_t variants) {
    Prepared p;
    for (std::size_t v = 0; v < variants; ++v) {
      auto& types = p.types.emplace_back();
      for (auto b : i.inputs) types.push_back(type_of(b, v));
      for (auto b : i.outputs) types.push_back(type_of(b, v));
      if (i.kind == InstructionKind::Kernel) p.kernels.push_back(make_kernel(i, types));
    }
    if (i.kind == InstructionKind::Kernel) p.random = graph::has(graph::schema(g_[i.node]).traits, graph::Trait::Random);
    if (i.kind == InstructionKind::Collective) prepare_collective(i, p);
    return p;
  }

  [[nodiscard]] graph::TensorType type_of(BufferIndex b, std::size_t variant) const {
    if (b == plan::kNoBuffer) return {};
    const auto& buffer = role_.buffers[b];
    return {buffer.dtype, buffer.shapes[std::min(variant, buffer.shapes.size() - 1)]};
  }

  std::unique_ptr<Kernel> make_kernel(const Instruction& i, const std::vector<graph::TensorType>& types) {
    const auto& node = g_[i.node];
    std::vector<std::optional<graph::TensorType>> inputs, outputs;
    for (std::size_t n = 0; n < i.inputs.size(); ++n)
      inputs.push_back(i.inputs[n] == plan::kNoBuffer ? std::nullopt : std::optional(types[n]));
    for (std::size_t n = 0; n < i.outputs.size(); ++n)
      outputs.push_back(i.outputs[n] == plan::kNoBuffer ? std::nullopt : std::optional(types[i.inputs.size() + n]));
    const auto& info = role_.kernels[static_cast<std::size_t>(i.kernel)];
    const auto stream = Hasher().add(node.name).value();
    const KernelRequest request{graph::schema(node), node.attributes,     inputs, outputs,
                                info.input_formats,  info.output_formats, stream, options_.threads};
    auto kernel = backend_.make(info.implementation, request);
    if (kernel->workspace_bytes() > info.workspace_bytes)
      throw InternalError("kernel " + info.implementation + " of " + node.name + " wants more workspace than the plan gave it");
    return kernel;
  }

  void prepare_collective(const Instruction& i, Prepared& p) {
    const auto& info = role_.collectives[static_cast<std::size_t>(i.collective)];
    p.group = plan::group(program_, world_.rank(), info.axis);
    const auto& buffer = role_.buffers[i.outputs.front()];
    const auto count = graph::element_count(buffer.shapes.front());
    const int me = plan::coordinate(program_, world_.rank(), info.axis);
    p.steps =
        plan::collective(info.kind, info.algorithm).steps(me, static_cast<int>(p.group.size()), count, world_.ranks_per_node(p.group));
  }

  void set_initial_values() {
    for (const auto& b : role_.buffers) {
      if (b.lifetime != plan::Lifetime::Persistent || b.part_of != plan::kNoBuffer || b.tensor == TensorId::None) continue;
      const auto& tensor = g_[b.tensor];
      if (!tensor.contents.known()) throw InternalError("tensor " + tensor.name + " has no initial values");
      graph::read_into(tensor.contents, b.shapes.front(), b.dtype, {options_.seed, graph::initial_stream(tensor.name)},
                       arena_.at(b.offset));
    }
  }

  // ---- playing

  void play(const plan::Slot& slot) {
    slot_ = slot;
    const auto& body = role_.bodies[slot.body];
    micro_batch_ = slot.micro_batch;
    per_micro_batch_ = plan::per_micro_batch(body.kind);
    if (body.kind == plan::BodyKind::Forward) free_saved_slot();
    for (std::uint32_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      if (plan::runs(program_, i, micro_batch_)) play_one(i, n);
    }
  }

  /// The saved buffers of an earlier micro-batch are about to be written again: what it still sends must have left.
  void free_saved_slot() {
    const auto earlier = micro_batch_ - role_.memory.in_flight;
    for (const auto& s : tickets_)
      if (s.second.micro_batch == earlier && plan::per_micro_batch(role_.bodies[s.second.body].kind)) await(s.second.ticket);
  }

  void await(Ticket ticket) {
    while (!transfers_.done(ticket)) transfers_.idle();
  }

  void await_dependencies(const Instruction& i) {
    for (const auto& d : i.after) {
      if (!communicates(role_.bodies[d.body].instructions[d.instruction])) continue;
      const bool same = per_micro_batch_ && plan::per_micro_batch(role_.bodies[d.body].kind);
      const int m = same ? micro_batch_ : plan::per_micro_batch(role_.bodies[d.body].kind) ? program_.micro_batches - 1 : 0;
      if (const auto at = tickets_.find({d.body, d.instruction, m}); at != tickets_.end()) await(at->second.ticket);
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
    if (record_) result_.played.push_back({slot_.body, n, micro_batch_, begin, now_seconds(), thread_seconds() - cpu});
    transfers_.progress();
  }

  void compute(const Instruction& i, Prepared& p) {
    const auto v = variant();
    const auto& types = p.types[std::min<std::size_t>(v, p.types.size() - 1)];
    switch (i.kind) {
      case InstructionKind::Kernel:
        return run_kernel(i, p, types);
      case InstructionKind::Reorder:
        return reorder({data(i.inputs[0]), data(i.outputs[0]), role_.buffers[i.inputs[0]].format, role_.buffers[i.outputs[0]].format},
                       types[0], options_.threads);
      case InstructionKind::Accumulate:
        if (micro_batch_ == 0)
          std::memcpy(data(i.outputs[0]), data(i.inputs[0]), static_cast<std::size_t>(graph::size_of(types[0]).value()));
        else
          accumulate(data(i.outputs[0]), data(i.inputs[0]), types[0], options_.threads);
        return;
      case InstructionKind::Load:
        return load(i, types.back());
      case InstructionKind::Slice:
        return slice(i, types);
      case InstructionKind::Report:
        result_.loss = *static_cast<const double*>(data(i.inputs[0]));
        return;
      default:
        throw InternalError("an instruction that does not compute");
    }
  }

  void run_kernel(const Instruction& i, Prepared& p, const std::vector<graph::TensorType>& types) {
    inputs_.clear();
    outputs_.clear();
    origins_.clear();
    origins_.reserve(types.size());
    for (std::size_t n = 0; n < i.inputs.size(); ++n) inputs_.push_back(view(i.inputs[n], types[n], p.random));
    for (std::size_t n = 0; n < i.outputs.size(); ++n) outputs_.push_back(view(i.outputs[n], types[i.inputs.size() + n], p.random));
    RunContext context{options_.seed, step_, i.workspace == plan::kNoBuffer ? nullptr : data(i.workspace)};
    p.kernels[std::min(variant(), p.kernels.size() - 1)]->run(inputs_, outputs_, context);
  }

  TensorView view(BufferIndex b, const graph::TensorType& type, bool with_origin) {
    if (b == plan::kNoBuffer) return {};
    const auto& buffer = role_.buffers[b];
    TensorView v{data(b), &type, buffer.format, nullptr, nullptr};
    if (with_origin && buffer.tensor != TensorId::None && buffer.batch_dim >= 0) {
      origins_.emplace_back(type.shape.size(), 0);
      origins_.back()[static_cast<std::size_t>(buffer.batch_dim)] = first_row(buffer);
      v.origin = &origins_.back();
      v.global_shape = &g_[buffer.tensor].type.shape;
    }
    return v;
  }

  [[nodiscard]] plan::SampleRange own_samples() const {
    if (per_micro_batch_) return plan::samples(program_, world_.rank(), micro_batch_);
    auto all = plan::samples(program_, world_.rank(), 0);
    for (int m = 1; m < program_.micro_batches; ++m) all.count += plan::samples(program_, world_.rank(), m).count;
    return all;
  }

  [[nodiscard]] std::int64_t first_row(const plan::Buffer& buffer) const {
    return own_samples().first * buffer.batch_dim_size / program_.batch;
  }

  void load(const Instruction& i, const graph::TensorType& type) {
    const auto range = own_samples();
    data_->read({g_[i.tensor].name, type, step_, range.first, range.count}, data(i.outputs[0]));
  }

  void slice(const Instruction& i, const std::vector<graph::TensorType>& types) {
    const auto& from = types[0];
    const auto& to = types[1];
    const auto& buffer = role_.buffers[i.outputs[0]];
    ensure(buffer.batch_dim >= 0, "a slice along the batch");
    const auto dim = static_cast<std::size_t>(buffer.batch_dim);
    const auto inner = graph::element_count(graph::Shape(from.shape.begin() + buffer.batch_dim + 1, from.shape.end())) *
                       static_cast<std::int64_t>(size_of(from.dtype));
    const auto outer = graph::element_count(graph::Shape(from.shape.begin(), from.shape.begin() + buffer.batch_dim));
    const auto first = first_row(buffer);
    const auto* source = static_cast<const std::byte*>(data(i.inputs[0]));
    auto* target = static_cast<std::byte*>(data(i.outputs[0]));
    for (std::int64_t o = 0; o < outer; ++o)
      std::memcpy(target + o * to.shape[dim] * inner, source + (o * from.shape[dim] + first) * inner,
                  static_cast<std::size_t>(to.shape[dim] * inner));
  }

  void start(const Instruction& i, std::uint32_t n) {
    Started s{{}, slot_.body, n, micro_batch_};
    const auto& name = i.tensor == TensorId::None ? kNothing : g_[i.tensor].name;
    if (i.kind == InstructionKind::Collective) {
      auto& p = prepared_[slot_.body][n];
      s.ticket = transfers_.start_collective({&p.steps, p.group, data(i.outputs[0]), role_.buffers[i.outputs[0]].dtype}, name);
    } else {
      const auto& info = role_.messages[static_cast<std::size_t>(i.message)];
      const int other = plan::peer(program_, world_.rank(), info);
      const auto bytes = static_cast<std::size_t>(plan::message_bytes(role_, i, variant()));
      const int tag = static_cast<int>(
          info.channel % 32749U);  // messages of equal tag keep their order, so a clash is harmless within one micro-batch order
      s.ticket = i.kind == InstructionKind::Send ? transfers_.start_send(other, data(i.inputs[0]), bytes, tag, name)
                                                 : transfers_.start_receive(other, data(i.outputs[0]), bytes, tag, name);
    }
    tickets_[{slot_.body, n, micro_batch_}] = s;
  }

  void note_communication() {
    for (const auto& [key, s] : tickets_) {
      const auto times = transfers_.times(s.ticket);
      result_.played.push_back({s.body, s.instruction, s.micro_batch, times.start, times.end, 0});
    }
  }

  [[nodiscard]] std::size_t variant() const { return per_micro_batch_ ? role_.variant_of[static_cast<std::size_t>(micro_batch_)] : 0; }

  [[nodiscard]] void* data(BufferIndex b) const {
    const auto& buffer = role_.buffers[b];
    std::int64_t offset = buffer.offset;
    if (role_.memory.in_flight > 1 && is_saved(b)) offset += role_.memory.saved_stride * (micro_batch_ % role_.memory.in_flight);
    return arena_.at(offset);
  }

  [[nodiscard]] bool is_saved(BufferIndex b) const {
    while (role_.buffers[b].part_of != plan::kNoBuffer) b = role_.buffers[b].part_of;
    return role_.buffers[b].lifetime == plan::Lifetime::Saved;
  }

  inline static const std::string kNothing;
  const plan::Program& program_;
  const graph::Graph& g_;
  const CpuBackend& backend_;
  Communicator& world_;
  ExecutorOptions options_;
  const plan::Role& role_;
  Arena arena_;
  Transfers transfers_;
  std::vector<std::vector<Prepared>> prepared_;
  plan::Slot slot_;
  int micro_batch_ = 0;
  bool per_micro_batch_ = false, record_ = false;
  std::int64_t step_ = 0;
  DataSource* data_ = nullptr;
  StepResult result_;
  std::map<std::tuple<std::uint16_t, std::uint32_t, int>, Started> tickets_;
  std::vector<TensorView> inputs_, outputs_;
  std::vector<graph::Shape> origins_;
};

int threads_per_rank(const Communicator& world) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / world.local_size());
}

Executor::Executor(const Training& training, const CpuBackend& backend, const ExecutorOptions& options)
    : impl_(std::make_unique<Impl>(training, backend, options)) {}
Executor::~Executor() = default;
StepResult Executor::step(std::int64_t step, DataSource& data, bool record) { return impl_->step(step, data, record); }
std::int64_t Executor::arena_bytes() const { return impl_->arena_bytes(); }
std::span<std::byte> Executor::stored(TensorId tensor) { return impl_->stored(tensor); }
std::vector<TensorId> Executor::stored_tensors() const { return impl_->stored_tensors(); }

}  // namespace rehearsal::exec
