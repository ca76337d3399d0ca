#include "exec/kernels/cpu_backend.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "exec/kernels/fast.hpp"
#include "exec/kernels/narrow.hpp"
#include "exec/kernels/native/transpose.hpp"
#include "exec/kernels/widened.hpp"

namespace rehearsal::exec {
namespace {

/// Before the name of the f32 kernel that does the work.
constexpr std::string_view kWidened = "widened:";

std::string text_of(std::span<const std::optional<graph::TensorType>> types) {
  std::string text;
  for (const auto& t : types) text += t ? std::string(rehearsal::name(t->dtype)) + graph::to_text(t->shape) + '|' : "-|";
  return text + '>';
}

std::string text_of(std::span<const plan::Format> formats) {
  std::string text;
  for (auto f : formats) text += static_cast<char>('0' + static_cast<int>(f));
  return text;
}

std::string signature_of(const plan::LocalNode& node) {
  std::string text = std::string(node.schema.name) + '{' + node.attributes.to_text() + '}' + text_of(node.inputs) + text_of(node.outputs);
  for (const auto& other : node.others) text += text_of(other.inputs) + text_of(other.outputs);
  return text + text_of(node.input_formats) + 't' + std::to_string(node.threads);
}

std::string signature_of(const KernelRow& row, const KernelRequest& r) {
  return std::string(row.op) + ' ' + std::string(row.implementation) + '{' + r.attributes.to_text() + '}' + text_of(r.inputs) +
         text_of(r.outputs) + text_of(r.input_formats) + '>' + text_of(r.output_formats) + 't' + std::to_string(r.threads);
}

/// One thread where a team would take longer to meet than to compute, above all on a machine whose cores are busy.
KernelRequest with_worthwhile_threads(KernelRequest request) {
  constexpr double kFlops = 2e5, kBytes = 128e3;
  const auto work = graph::work_of(request.schema, request.view());
  if (work.flops.value() < kFlops && work.bytes.value() < kBytes) request.threads = 1;
  return request;
}

KernelRequest request_of(const plan::LocalNode& node, const plan::KernelOffer& offer) {
  return with_worthwhile_threads(
      {node.schema, node.attributes, node.inputs, node.outputs, offer.input_formats, offer.output_formats, node.threads});
}

plan::LocalNode with_types(const plan::LocalNode& node, const plan::LocalTypes& types) {
  return {node.schema, node.attributes, types.inputs, types.outputs, node.input_formats, node.threads};
}

/// How a row would run nodes of these types; nothing when it refuses, with the reason.
std::optional<plan::KernelOffer> offer_of(const KernelRow& row, const plan::LocalNode& node, std::string& reason) {
  plan::KernelOffer offer;
  offer.implementation = std::string(row.implementation);
  offer.input_formats.assign(node.inputs.size(), plan::Format::Plain);
  offer.output_formats.assign(node.outputs.size(), plan::Format::Plain);
  reason = "formats";
  if (row.formats != nullptr && !row.formats(node, offer.input_formats, offer.output_formats)) return std::nullopt;
  const auto kernel = row.make(request_of(node, offer), reason);
  if (kernel == nullptr) return std::nullopt;
  offer.workspace = Bytes(static_cast<double>(kernel->workspace_bytes()));
  for (const auto& types : node.others) {
    const auto other = offer_of(row, with_types(node, types), reason);
    if (!other) return std::nullopt;
    reason = "formats of micro-batches of two sizes";
    if (other->input_formats != offer.input_formats || other->output_formats != offer.output_formats) return std::nullopt;
    offer.workspace = std::max(offer.workspace, other->workspace);
  }
  return offer;
}

}  // namespace

CpuBackend::CpuBackend(const std::string& wanted) : name_(wanted == "auto" ? "onednn" : wanted) {
  if (name_ != "onednn" && name_ != "reference")
    throw BadInput("--backend", "\"" + wanted + "\" is not a backend of this machine; use auto, onednn or reference");
  if (name_ == "onednn") tables_.push_back(fast_kernels());
  tables_.push_back(reference_kernels());
}

plan::KernelOffer CpuBackend::offer(const plan::LocalNode& node) const {
  const auto signature = signature_of(node);
  if (const auto known = known_.find(signature); known != known_.end()) return known->second;
  std::string reasons;
  // Kernels that compute know f32 and f64; those that only move elements do not look at them.
  const bool narrow = WidenedNode::applies(node.inputs, node.outputs);
  std::optional<plan::KernelOffer> offer;
  const bool moves = node.schema.family == graph::CostFamily::Movement || node.schema.family == graph::CostFamily::Gather;
  if (!narrow || moves) offer = first_offer(node, reasons);
  if (!offer && narrow) offer = widened_offer(node, reasons);
  if (!offer)
    throw Refusal("operator " + std::string(node.schema.name) + " has no kernel for these operands" +
                  (reasons.empty() ? "" : " (" + reasons + ")"));
  return known_[signature] = *offer;
}

plan::KernelOffer CpuBackend::widened_offer(const plan::LocalNode& node, const std::string& reasons) const {
  const WidenedNode wide(node);
  auto bytes = wide.bytes();
  std::vector<WidenedNode> wider;
  for (const auto& other : node.others) wider.emplace_back(with_types(node, other));
  std::vector<plan::LocalTypes> others;
  for (const auto& other : wider) others.push_back({other.inputs(), other.outputs()}), bytes = std::max(bytes, other.bytes());
  auto offer = this->offer({node.schema, wide.attributes(), wide.inputs(), wide.outputs(), node.input_formats, node.threads, others});
  offer.implementation = std::string(kWidened) + offer.implementation;
  offer.workspace += Bytes(static_cast<double>(bytes));
  offer.why = reasons + (offer.why.empty() ? "" : "; " + offer.why);
  return offer;
}

std::optional<plan::KernelOffer> CpuBackend::first_offer(const plan::LocalNode& node, std::string& reasons) const {
  for (const auto& table : tables_)
    for (const auto& row : table) {
      if (row.op != node.schema.name) continue;
      std::string reason;
      auto offer = offer_of(row, node, reason);
      if (!offer) {
        reasons += (reasons.empty() ? "" : "; ") + std::string(row.implementation) + ": " + reason;
        continue;
      }
      offer->why = reasons;
      return offer;
    }
  return std::nullopt;
}

bool CpuBackend::reorders(const graph::TensorType& type, plan::Format from, plan::Format to) const {
  const bool image = type.shape.size() >= 3 && type.shape.size() <= 5;
  return from == to || (image && from != plan::Format::Packed && to != plan::Format::Packed);
}

std::shared_ptr<Kernel> CpuBackend::make_by(const KernelRow& row, const KernelRequest& given, std::string& reason) const {
  const auto request = with_worthwhile_threads(given);
  const auto signature = signature_of(row, request);
  if (const auto known = shared_.find(signature); known != shared_.end())
    if (auto kernel = known->second.lock()) return kernel;
  std::shared_ptr<Kernel> kernel = row.make(request, reason);
  if (kernel && kernel->is_shareable()) shared_[signature] = kernel;
  return kernel;
}

std::shared_ptr<Kernel> CpuBackend::make(const std::string& implementation, const KernelRequest& request) const {
  if (implementation.starts_with(kWidened))
    return make_widened(request, [&](const KernelRequest& wide) { return make(implementation.substr(kWidened.size()), wide); });
  std::string reason = "unknown implementation";
  for (const auto& table : tables_)
    for (const auto& row : table) {
      if (row.op != request.schema.name || row.implementation != implementation) continue;
      if (auto kernel = make_by(row, request, reason)) return kernel;
    }
  throw Refusal("operator " + std::string(request.schema.name) + " cannot run as " + implementation + ": " + reason);
}

void CpuBackend::forget() const {
  known_.clear();
  shared_.clear();
}

namespace {

/// Elements that one thread moves before a team has met.
constexpr std::int64_t kSmall = 16384;

/// (outer, a, b) -> (outer, b, a) for elements of one size.
template <class T>
void transpose_blocks(const ReorderTask& task, int threads, std::int64_t outer, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kColumns = 256;
  const std::int64_t blocks = (b + kColumns - 1) / kColumns;
#pragma omp parallel for schedule(static) num_threads(threads) if (outer * a * b > kSmall)
  for (std::int64_t i = 0; i < outer * blocks; ++i) {
    const std::int64_t base = i / blocks * a * b, first = i % blocks * kColumns;
    native::MatrixTranspose<T>{static_cast<const T*>(task.from) + base + first,
                               static_cast<T*>(task.to) + base + first * a,
                               a,
                               std::min(kColumns, b - first),
                               b,
                               a}
        .run();
  }
}

}  // namespace

void reorder(const ReorderTask& task, const graph::TensorType& type, int threads) {
  const auto count = graph::element_count(type.shape);
  if (task.from_format == task.to_format || type.shape.size() < 3) {
    std::memcpy(task.to, task.from, static_cast<std::size_t>(count) * size_of(type.dtype));
    return;
  }
  const auto outer = type.shape[0], channels = type.shape[1];
  const auto spatial = count == 0 ? 0 : count / (outer * channels);
  const bool to_last = task.to_format == plan::Format::ChannelsLast;
  const auto a = to_last ? channels : spatial, b = to_last ? spatial : channels;
  switch (size_of(type.dtype)) {
    case 1:
      return transpose_blocks<std::uint8_t>(task, threads, outer, a, b);
    case 2:
      return transpose_blocks<std::uint16_t>(task, threads, outer, a, b);
    case 4:
      return transpose_blocks<std::uint32_t>(task, threads, outer, a, b);
    case 8:
      return transpose_blocks<std::uint64_t>(task, threads, outer, a, b);
    default:
      throw InternalError("a reorder of elements without a size");
  }
}

void accumulate(void* sum, const void* addend, const graph::TensorType& type, int threads) {
  const auto count = graph::element_count(type.shape);
  const auto add = [count, threads](auto* to, const auto* from) {
#pragma omp parallel for simd schedule(static) num_threads(threads) if (count > kSmall)
    for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
  };
  if (type.dtype == DType::F32)
    add(static_cast<float*>(sum), static_cast<const float*>(addend));
  else if (type.dtype == DType::F64)
    add(static_cast<double*>(sum), static_cast<const double*>(addend));
  else if (is_narrow(type.dtype))
    add_narrow(sum, addend, type.dtype, count);
  else
    throw Refusal("gradients of type " + std::string(name(type.dtype)) + " cannot be summed");
}

}  // namespace rehearsal::exec
