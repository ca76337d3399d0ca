#include "exec/host/cpu_backend.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "costmodel/calibration.hpp"
#include "exec/host/fast.hpp"
#include "exec/host/second_onednn.hpp"
#include "exec/kernels/narrow.hpp"
#include "exec/kernels/native/transpose.hpp"
#include "exec/kernels/widened.hpp"

namespace rehearsal::exec {
CpuBackend::CpuBackend(const std::string& wanted) : name_(wanted == "auto" ? "onednn" : wanted) {
  if (name_ != "onednn" && name_ != "reference")
    throw BadInput("--backend", "\"" + wanted + "\" is not a backend of this machine; use auto, onednn or reference");
  if (name_ == "onednn") fast_.add(fast_kernels());
  reference_.add(reference_kernels());
}

const KernelTables& CpuBackend::second() const {
  if (second_) return *second_;
  second_.emplace();
  if (name_ == "onednn") second_->add(second_onednn().rows);
  return *second_;
}

const KernelTables& CpuBackend::tables_with(std::string_view implementation) const {
  return costmodel::names_version(implementation) ? second() : fast_;
}

std::vector<const KernelRow*> CpuBackend::rows_to_choose_from(std::string_view op) const {
  auto rows = fast_.rows_of(op);
  const auto more = second().rows_of(op);
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

bool CpuBackend::knows(std::string_view op, std::string_view implementation) const {
  if (implementation.starts_with(kWidened)) implementation.remove_prefix(kWidened.size());
  const auto rows = rows_to_choose_from(op);
  return std::ranges::any_of(rows, [&](const KernelRow* row) { return row->implementation == implementation; });
}

void CpuBackend::choose(const costmodel::KernelChoices& choices, const std::string& where) {
  known_.clear();
  if (name_ == "reference") return;
  const bool same_kernels = choices.home.libraries == kernel_libraries();
  for (const auto& choice : choices.nodes) {
    const auto op = std::string_view(choice.node).substr(0, choice.node.find('{'));
    const auto unknown = std::ranges::find_if(choice.timed, [&](const auto& kernel) { return !knows(op, kernel.implementation); });
    if (unknown != choice.timed.end() && same_kernels)
      throw BadInput(where, "\"" + unknown->implementation + "\" is no kernel of " + std::string(op) +
                                " that can be chosen; `rehearse calibrate` writes their names");
    if (knows(op, choice.chosen)) choices_[choice.node] = choice;
  }
}

plan::KernelOffer CpuBackend::offer(const plan::LocalNode& node) const {
  const auto signature = signature_of(node);
  if (const auto known = known_.find(signature); known != known_.end()) return known->second;
  const auto chosen = chosen_offer(node);
  return known_[signature] = chosen ? *chosen : usual_offer(node);
}

std::optional<plan::KernelOffer> CpuBackend::chosen_offer(const plan::LocalNode& node) const {
  if (choices_.empty()) return std::nullopt;
  const auto choice = choices_.find(node_key(node));
  if (choice == choices_.end()) return std::nullopt;
  auto offer = offer_by(choice->second.chosen, node);
  if (offer) offer->timed = choice->second.timed;
  return offer;
}

std::optional<plan::KernelOffer> CpuBackend::offer_by(std::string_view implementation, const plan::LocalNode& node) const {
  std::string reason;
  return offer_or_reason(implementation, node, reason);
}

std::optional<plan::KernelOffer> CpuBackend::offer_or_reason(std::string_view implementation, const plan::LocalNode& node,
                                                             std::string& reason) const {
  const bool widened = implementation.starts_with(kWidened);
  if (widened) implementation.remove_prefix(kWidened.size());
  const auto& tables = tables_with(implementation);
  if (!widened) return tables.offer_by(implementation, node, reason);
  if (!WidenedNode::applies(node.inputs, node.outputs)) return std::nullopt;
  return widened_offer(node, [&](const plan::LocalNode& wide) { return tables.offer_by(implementation, wide, reason); });
}

/// Kernels that compute in 16 bits where they can, else the same on widened operands. What no rule asked says here why it refuses.
std::vector<plan::KernelOffer> CpuBackend::offers(const plan::LocalNode& node) const {
  std::vector<plan::KernelOffer> offers{offer(node)};
  const auto rows = rows_to_choose_from(node.schema.name);
  if (rows.size() < 2 || !knows(node.schema.name, offers.front().implementation)) return offers;
  for (const auto* row : rows) {
    const std::string name(row->implementation);
    std::string reason, of_widened;
    auto other = offer_or_reason(name, node, reason);
    if (!other && !reason.empty() && costmodel::names_version(name))
      offers.front().why += (offers.front().why.empty() ? "" : "; ") + name + ": " + reason;
    if (!other) other = offer_or_reason(std::string(kWidened) + name, node, of_widened);
    if (other && other->implementation != offers.front().implementation) offers.push_back(std::move(*other));
  }
  return offers;
}

plan::KernelOffer CpuBackend::usual_offer(const plan::LocalNode& node) const {
  std::string reasons;
  if (auto offer = direct_offer(node, reasons)) return *offer;
  if (WidenedNode::applies(node.inputs, node.outputs)) {
    auto offer = *widened_offer(node, [this](const plan::LocalNode& wide) { return this->offer(wide); });
    if (offer.why.empty() || offer.why == reasons)
      offer.why = reasons;
    else
      offer.why = reasons + "; widened, " + offer.why;
    return offer;
  }
  throw Refusal("operator " + std::string(node.schema.name) + " has no kernel for these operands" +
                (reasons.empty() ? "" : " (" + reasons + ")"));
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

std::optional<plan::KernelOffer> CpuBackend::widened_offer(const plan::LocalNode& node, const Ask& ask) {
  const WidenedNode wide(node);
  auto bytes = wide.bytes();
  std::vector<WidenedNode> wider;
  for (const auto& other : node.others) wider.emplace_back(with_types(node, other));
  std::vector<plan::LocalTypes> others;
  for (const auto& other : wider) others.push_back({other.inputs(), other.outputs()}), bytes = std::max(bytes, other.bytes());
  auto offer = ask({node.schema, wide.attributes(), wide.inputs(), wide.outputs(), node.input_formats, node.threads, others});
  if (!offer) return std::nullopt;
  offer->implementation = std::string(kWidened) + offer->implementation;
  for (auto& kernel : offer->timed) kernel.implementation = std::string(kWidened) + kernel.implementation;
  offer->workspace += Bytes(static_cast<double>(bytes));
  return offer;
}

bool CpuBackend::reorders(const graph::TensorType& type, plan::Format from, plan::Format to) const {
  const bool image = type.shape.size() >= 3 && type.shape.size() <= 5;
  return from == to || (image && from != plan::Format::Packed && to != plan::Format::Packed);
}

std::shared_ptr<Kernel> CpuBackend::make(const std::string& implementation, const KernelRequest& request) const {
  if (implementation.starts_with(kWidened))
    return make_widened(request, [&](const KernelRequest& wide) { return make(implementation.substr(kWidened.size()), wide); });
  return (implementation.starts_with("reference:") ? reference_ : tables_with(implementation)).make(implementation, request);
}

void CpuBackend::forget() const {
  known_.clear();
  fast_.forget();
  second_.reset();
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

namespace {

/// Of 16 bits to a sum in f32.
void accumulate_widened(float* sum, const std::uint16_t* addend, std::int64_t count, const Addition& addition, int threads) {
  constexpr std::int64_t kBlock = 1024;
  const auto blocks = (count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) num_threads(threads) if (count > kSmall)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const auto first = block * kBlock, n = std::min(kBlock, count - first);
    float wide[kBlock];
    widen(addend + first, addition.dtype, addition.first ? sum + first : wide, n);
    for (std::int64_t i = 0; i < n && !addition.first; ++i) sum[first + i] += wide[i];
  }
}

}  // namespace

void accumulate(void* sum, const void* addend, std::int64_t count, const Addition& addition, int threads) {
  const auto add = [&](auto* to, const auto* from) {
    if (addition.first) return static_cast<void>(std::copy_n(from, count, to));
#pragma omp parallel for simd schedule(static) num_threads(threads) if (count > kSmall)
    for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
  };
  if (addition.dtype == DType::F32)
    add(static_cast<float*>(sum), static_cast<const float*>(addend));
  else if (addition.dtype == DType::F64)
    add(static_cast<double*>(sum), static_cast<const double*>(addend));
  else if (is_narrow(addition.dtype))
    accumulate_widened(static_cast<float*>(sum), static_cast<const std::uint16_t*>(addend), count, addition, threads);
  else
    throw Refusal("gradients of type " + std::string(name(addition.dtype)) + " cannot be summed");
}

}  // namespace rehearsal::exec
