#include "exec/bench/measured.hpp"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.hpp"
#include "base/thread_time.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/narrow.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::exec::bench {
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;

Memory memory_of(std::int64_t bytes) {
  const auto whole = static_cast<std::size_t>((std::max<std::int64_t>(bytes, 1) + 63) / 64 * 64);
  Memory m(std::aligned_alloc(64, whole));
  if (!m) throw EnvironmentFailure("memory ran out while measuring kernels");
  return m;
}

/// Ordinary numbers: labels below 8, flags of both kinds, reals between 1/4 and 1.
void fill(const Memory& m, const graph::TensorType& type) {
  const auto count = graph::element_count(type.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = 0.25 + 0.75 * static_cast<double>((i * 7919) % 1021) / 1021.0;
    switch (type.dtype) {
      case DType::F32:
        static_cast<float*>(m.get())[i] = static_cast<float>(v);
        break;
      case DType::BF16:
      case DType::F16: {
        const auto wide = static_cast<float>(v);
        narrow(&wide, type.dtype, static_cast<std::uint16_t*>(m.get()) + i, 1);
        break;
      }
      case DType::F64:
        static_cast<double*>(m.get())[i] = v;
        break;
      case DType::I64:
        static_cast<std::int64_t*>(m.get())[i] = 1 + i % 7;
        break;
      case DType::Bool:
        static_cast<bool*>(m.get())[i] = i % 2 == 0;
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

}  // namespace

struct Measured::Buffers {
  const graph::OpSchema* schema = nullptr;
  graph::Attributes attributes;
  std::vector<std::optional<graph::TensorType>> inputs, outputs;
  std::vector<Memory> memory;
  std::vector<TensorView> in, out;
  std::shared_ptr<Kernel> kernel;
  ReorderTask reorder{};
  bool accumulates = false;
  int threads = 1;
  Memory workspace;
  std::int64_t bytes = 0;
  double read = 0;

  void* add(const graph::TensorType& type) {
    const auto size = static_cast<std::int64_t>(graph::size_of(type).value());
    memory.push_back(memory_of(size));
    fill(memory.back(), type);
    bytes += size;
    return memory.back().get();
  }

  costmodel::KernelCase copy(const Case& c) {
    const auto from = c.channels_last ? plan::Format::ChannelsLast : plan::Format::Plain;
    const auto to = c.channels_last ? plan::Format::Plain : plan::Format::ChannelsLast;
    accumulates = c.op == "accumulate";
    inputs = {c.inputs[0]};
    reorder = {add(*inputs[0]), add(*inputs[0]), from, to};
    const plan::KernelInfo info{"reorder", {from}, {to}, 0};
    return predict::copy_case(accumulates ? plan::InstructionKind::Accumulate : plan::InstructionKind::Reorder, *inputs[0],
                              accumulates ? nullptr : &info, inputs[0]->dtype);
  }

  costmodel::KernelCase node(const Case& c, const CpuBackend& backend) {
    schema = &graph::op_table()[graph::op(c.op)];
    attributes = c.attributes;
    std::vector<plan::Format> formats;
    inputs = c.inputs;
    for (const auto& type : inputs)
      formats.push_back(c.channels_last && type && type->shape.size() == 4 ? plan::Format::ChannelsLast : plan::Format::Plain);
    for (auto& type : schema->infer({inputs, {}, attributes})) outputs.emplace_back(std::move(type));
    const auto offer = backend.offer({*schema, attributes, inputs, outputs, formats, threads});
    kernel = backend.make(offer.implementation, {*schema, attributes, inputs, outputs, offer.input_formats, offer.output_formats, threads});
    workspace = memory_of(kernel->workspace_bytes());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      in.push_back(inputs[i] ? TensorView{add(*inputs[i]), &*inputs[i], offer.input_formats[i]} : TensorView{});
    for (std::size_t i = 0; i < outputs.size(); ++i) out.push_back({add(*outputs[i]), &*outputs[i], offer.output_formats[i]});
    const plan::KernelInfo info{offer.implementation, offer.input_formats, offer.output_formats, kernel->workspace_bytes()};
    return predict::kernel_case(predict::KernelCall{*schema, {inputs, outputs, attributes}, info}, threads);
  }
};

Measured::Measured(const Case& c, const CpuBackend& backend, int threads) : buffers_(std::make_unique<Buffers>()) {
  buffers_->threads = threads;
  kernel_ = c.op == "reorder" || c.op == "accumulate" ? buffers_->copy(c) : buffers_->node(c, backend);
  kernel_.threads = threads;
}
Measured::~Measured() = default;
Measured::Measured(Measured&&) noexcept = default;

std::int64_t Measured::bytes() const { return buffers_->bytes; }

void Measured::call() {
  auto& b = *buffers_;
  if (b.kernel) return b.kernel->run(b.in, b.out, {0, 0, b.workspace.get()});
  b.accumulates ? accumulate(b.reorder.to, b.reorder.from, *b.inputs[0], b.threads) : reorder(b.reorder, *b.inputs[0], b.threads);
}

void Measured::run() {
  auto& b = *buffers_;
  b.read += read_through(b.memory.front().get(), static_cast<std::int64_t>(graph::size_of(*b.inputs[0]).value()));
  const long before = interruptions();
  const double wall = now_seconds(), cpu = thread_seconds();
  call();
  Run r{thread_seconds() - cpu, now_seconds() - wall, true};
  r.quiet = interruptions() == before;
  runs_.push_back(r);
}

FlopsPerSecond product_rate(const CpuBackend& backend, DType type) {
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

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

costmodel::Sample sample_of(const costmodel::KernelCase& kernel, std::span<const Run> runs) {
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
  s.cpu_min = Seconds(quantile(cpu, 0));
  s.cpu_quartile = Seconds(quantile(cpu, 0.25));
  s.cpu_median = Seconds(quantile(cpu, 0.5));
  s.wall_min = Seconds(quantile(wall, 0));
  s.wall_median = Seconds(quantile(wall, 0.5));
  const auto& told = kernel.threads > 1 ? wall : cpu;
  const double low = quantile(told, 0.25), high = quantile(told, 0.75);
  s.spread = low > 0 ? std::log(high / low) / 1.349 : 0;  // the quartiles of a normal distribution are 1.349 deviations apart
  return s;
}

}  // namespace rehearsal::exec::bench
