#include "exec/host/cpu_backend.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "exec/host/fast.hpp"
#include "exec/kernels/narrow.hpp"
#include "exec/kernels/native/transpose.hpp"
#include "exec/kernels/widened.hpp"

namespace rehearsal::exec {
namespace {

/// Before the name of the f32 kernel that does the work.
constexpr std::string_view kWidened = "widened:";

}  // namespace

CpuBackend::CpuBackend(const std::string& wanted) : name_(wanted == "auto" ? "onednn" : wanted) {
  if (name_ != "onednn" && name_ != "reference")
    throw BadInput("--backend", "\"" + wanted + "\" is not a backend of this machine; use auto, onednn or reference");
  if (name_ == "onednn") fast_.add(fast_kernels());
  reference_.add(reference_kernels());
}

plan::KernelOffer CpuBackend::offer(const plan::LocalNode& node) const {
  const auto signature = signature_of(node);
  if (const auto known = known_.find(signature); known != known_.end()) return known->second;
  std::string reasons;
  auto offer = direct_offer(node, reasons);
  if (!offer && WidenedNode::applies(node.inputs, node.outputs)) offer = widened_offer(node, reasons);
  if (!offer)
    throw Refusal("operator " + std::string(node.schema.name) + " has no kernel for these operands" +
                  (reasons.empty() ? "" : " (" + reasons + ")"));
  return known_[signature] = *offer;
}

/// Fast kernels say themselves which types they know. The reference ones that compute know f32 and f64, and updates gradients of 16 bits
/// beside them; those that only move elements do not look at them.
std::optional<plan::KernelOffer> CpuBackend::direct_offer(const plan::LocalNode& node, std::string& reasons) const {
  if (auto offer = fast_.offer(node, reasons)) return offer;
  const auto family = node.schema.family;
  const bool moves = family == graph::CostFamily::Movement || family == graph::CostFamily::Gather;
  const bool updates =
      family == graph::CostFamily::Optimizer && node.outputs[0]->dtype == DType::F32 && node.inputs[0]->dtype == DType::F32;
  if (!moves && !updates && WidenedNode::applies(node.inputs, node.outputs)) return std::nullopt;
  return reference_.offer(node, reasons);
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
  if (offer.why.empty() || offer.why == reasons)
    offer.why = reasons;
  else
    offer.why = reasons + "; widened, " + offer.why;
  return offer;
}

bool CpuBackend::reorders(const graph::TensorType& type, plan::Format from, plan::Format to) const {
  const bool image = type.shape.size() >= 3 && type.shape.size() <= 5;
  return from == to || (image && from != plan::Format::Packed && to != plan::Format::Packed);
}

std::shared_ptr<Kernel> CpuBackend::make(const std::string& implementation, const KernelRequest& request) const {
  if (implementation.starts_with(kWidened))
    return make_widened(request, [&](const KernelRequest& wide) { return make(implementation.substr(kWidened.size()), wide); });
  return (implementation.starts_with("reference:") ? reference_ : fast_).make(implementation, request);
}

void CpuBackend::forget() const {
  known_.clear();
  fast_.forget();
  reference_.forget();
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
