#include "exec/bench/measured.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/cpu_time.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/kernel_tables.hpp"
#include "exec/kernels/narrow.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::exec::bench {
namespace {

constexpr std::int64_t kAligned = 256;  ///< where the tensors of an arena begin, at least

std::int64_t bytes_of(const graph::TensorType& type) { return static_cast<std::int64_t>(graph::size_of(type).value()); }

/// Ordinary numbers: labels below 8, flags of both kinds, reals between 1/4 and 1.
void fill(std::byte* memory, const graph::TensorType& type) {
  const auto count = graph::element_count(type.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = 0.25 + 0.75 * static_cast<double>((i * 7919) % 1021) / 1021.0;
    switch (type.dtype) {
      case DType::F32:
        reinterpret_cast<float*>(memory)[i] = static_cast<float>(v);
        break;
      case DType::BF16:
      case DType::F16: {
        const auto wide = static_cast<float>(v);
        narrow(&wide, type.dtype, reinterpret_cast<std::uint16_t*>(memory) + i, 1);
        break;
      }
      case DType::F64:
        reinterpret_cast<double*>(memory)[i] = v;
        break;
      case DType::I64:
        reinterpret_cast<std::int64_t*>(memory)[i] = 1 + i % 7;
        break;
      case DType::Bool:
        reinterpret_cast<bool*>(memory)[i] = i % 2 == 0;
        break;
      default:
        throw InternalError("the sweep has no operands of this type");
    }
  }
}

long interruptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

/// Brings what lies there into the cache, as far as it fits.
double read_through(const void* data, std::int64_t bytes) {
  const auto* words = static_cast<const float*>(data);
  double sum = 0;
  for (std::int64_t i = 0; i < bytes / 4; i += 16) sum += static_cast<double>(words[i]);
  return sum;
}

plan::KernelOffer offer_named(const plan::LocalNode& node, const std::string& implementation, const ComputeBackend& backend) {
  if (implementation.empty()) return backend.offer(node);
  if (auto named = backend.offer_by(implementation, node)) return *std::move(named);
  throw Refusal("operator " + std::string(node.schema.name) + " does not run as " + implementation + " here");
}

}  // namespace

struct Measured::Buffers {
  explicit Buffers(ComputeDevice& on) : device(on) {}

  ComputeDevice& device;
  std::optional<CaseNode> of;  ///< nothing: a copy
  std::string key;
  std::vector<std::optional<graph::TensorType>> inputs, outputs;
  std::vector<TensorView> in, out;
  std::shared_ptr<Kernel> kernel;
  ReorderTask reorder{};
  RunContext context{};
  bool accumulates = false;
  int threads = 1;
  double read = 0;
  /// Operands, results and workspace one behind another, as in an arena; last the first operand once more.
  std::unique_ptr<DeviceMemory> memory;
  std::vector<std::pair<graph::TensorType, std::int64_t>> places;  ///< and where each begins
  std::int64_t bytes = 0;

  std::int64_t reserve(std::int64_t more) {
    const auto at = bytes;
    bytes += (more + kAligned - 1) / kAligned * kAligned;
    return at;
  }
  std::int64_t reserve(const graph::TensorType& type) {
    places.emplace_back(type, reserve(bytes_of(type)));
    return places.back().second;
  }
  void allocate() {
    reserve(*inputs.front());
    memory = std::make_unique<DeviceMemory>(device, bytes);
    std::vector<std::byte> values;
    for (const auto& [type, at] : places) {
      values.resize(static_cast<std::size_t>(bytes_of(type)));
      fill(values.data(), type);
      device.upload(memory->at(at), values.data(), values.size());
    }
  }

  costmodel::KernelCase copy(const Case& c) {
    const auto from = c.channels_last ? plan::Format::ChannelsLast : plan::Format::Plain;
    const auto to = c.channels_last ? plan::Format::Plain : plan::Format::ChannelsLast;
    accumulates = c.op == "accumulate";
    inputs = {c.inputs[0]};
    const auto first = reserve(*inputs[0]);
    const auto second = reserve({accumulates ? plan::sum_type(inputs[0]->dtype) : inputs[0]->dtype, inputs[0]->shape});
    allocate();
    reorder = {memory->at(first), memory->at(second), from, to};
    const plan::KernelInfo info{"reorder", {from}, {to}, 0};
    return predict::copy_case(accumulates ? plan::InstructionKind::Accumulate : plan::InstructionKind::Reorder, *inputs[0],
                              accumulates ? nullptr : &info, inputs[0]->dtype);
  }

  costmodel::KernelCase node(const Case& c, const ComputeBackend& backend) {
    of.emplace(c);
    inputs = of->inputs();
    outputs = of->outputs();
    const auto asked = of->on(threads);
    key = node_key(asked);
    const auto offer = offer_named(asked, c.implementation, backend);
    kernel = backend.make(offer.implementation,
                          {of->schema(), of->attributes(), inputs, outputs, offer.input_formats, offer.output_formats, threads, &device});
    std::vector<std::int64_t> places_of;
    for (const auto* types : {&inputs, &outputs})
      for (const auto& type : *types) places_of.push_back(type ? reserve(*type) : 0);
    const auto workspace = reserve(kernel->workspace_bytes());
    allocate();
    context = {0, 0, memory->at(workspace), device.stream(), device.fault()};
    for (std::size_t i = 0; i < inputs.size(); ++i)
      in.push_back(inputs[i] ? TensorView{memory->at(places_of[i]), &*inputs[i], offer.input_formats[i]} : TensorView{});
    for (std::size_t i = 0; i < outputs.size(); ++i)
      out.push_back({memory->at(places_of[inputs.size() + i]), &*outputs[i], offer.output_formats[i]});
    const plan::KernelInfo info{offer.implementation, offer.input_formats, offer.output_formats, kernel->workspace_bytes()};
    return predict::kernel_case(predict::KernelCall{of->schema(), {inputs, outputs, of->attributes()}, info}, threads);
  }

  void call() {
    if (kernel) return kernel->run(in, out, context);
    if (!accumulates) return exec::reorder(reorder, *inputs[0], threads);
    accumulate(reorder.to, reorder.from, graph::element_count(inputs[0]->shape), {inputs[0]->dtype}, threads);
  }
};

Measured::Measured(const Case& c, const ComputeBackend& backend, int threads) : buffers_(std::make_unique<Buffers>(backend.device())) {
  buffers_->threads = threads;
  const bool copies = c.op == "reorder" || c.op == "accumulate";
  if (copies && !backend.device().is_host()) throw Refusal(c.op + ": measured on the host alone");
  kernel_ = copies ? buffers_->copy(c) : buffers_->node(c, backend);
  kernel_.threads = threads;
}
Measured::~Measured() = default;
Measured::Measured(Measured&&) noexcept = default;

std::int64_t Measured::bytes() const { return buffers_->bytes; }
const std::string& Measured::node() const { return buffers_->key; }

void Measured::run() {
  auto& b = *buffers_;
  b.read += read_through(b.memory->data(), bytes_of(*b.inputs[0]));
  const long before = interruptions();
  const double wall = now_seconds(), cpu = thread_seconds();
  b.call();
  MeasuredRun r{thread_seconds() - cpu, now_seconds() - wall, true};
  r.quiet = interruptions() == before;
  runs_.push_back(r);
}

void Measured::run_behind(const DeviceMemory& other) {
  auto& b = *buffers_;
  auto& device = b.device;
  const auto [type, fresh] = b.places.back();
  device.clear(other.data(), static_cast<std::size_t>(other.bytes()));
  device.copy(b.memory->data(), b.memory->at(fresh), static_cast<std::size_t>(bytes_of(type)));
  const auto begin = device.mark();
  const double asked = now_seconds();
  b.call();
  const double issue = now_seconds() - asked;
  const auto end = device.mark();
  const double seconds = device.time_of(end) - device.time_of(begin);
  device.forget_marks();
  runs_.push_back({seconds, seconds, true, issue});
}

FlopsPerSecond product_rate(const ComputeBackend& backend, DType type) {
  constexpr std::int64_t kSize = 1024;
  constexpr int kRuns = 8;
  const graph::TensorType matrix{type, {kSize, kSize}};
  Measured product({"MatMul", {}, {matrix, matrix}}, backend, 1);
  double least = HUGE_VAL;
  for (int run = 0; run < kRuns; ++run) {
    product.run();
    least = std::min(least, product.runs().back().cpu);
  }
  return FlopsPerSecond(product.kernel().work.flops.value() / least);
}

costmodel::Sample sample_of(const costmodel::KernelCase& kernel, std::span<const MeasuredRun> runs) {
  constexpr std::size_t kEnough = 3;
  std::vector<double> cpu, wall, quiet;
  for (const auto& r : runs) {
    cpu.push_back(r.cpu);
    wall.push_back(r.wall);
    if (r.quiet) quiet.push_back(r.wall);
  }
  if (quiet.size() >= kEnough) wall = quiet;
  costmodel::Sample s;
  s.kernel = kernel;
  s.count = static_cast<std::int64_t>(runs.size());
  s.cpu_min = Seconds(quantile_of(cpu, 0));
  s.cpu_quartile = Seconds(quantile_of(cpu, 0.25));
  s.cpu_median = Seconds(median_of(cpu));
  s.wall_min = Seconds(quantile_of(wall, 0));
  s.wall_median = Seconds(median_of(wall));
  const auto& told = kernel.threads > 1 ? wall : cpu;
  s.spread = log_deviation(quantile_of(told, 0.25), quantile_of(told, 0.75));
  return s;
}

}  // namespace rehearsal::exec::bench
