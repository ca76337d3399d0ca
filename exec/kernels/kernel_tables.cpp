#include "exec/kernels/kernel_tables.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::exec {

plan::LocalNode with_types(const plan::LocalNode& node, const plan::LocalTypes& types) {
  return {node.schema, node.attributes, types.inputs, types.outputs, node.input_formats, node.threads};
}

namespace {

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

KernelRequest request_of(const plan::LocalNode& node, const plan::KernelOffer& offer, ComputeDevice* device) {
  return with_worthwhile_threads(
      {node.schema, node.attributes, node.inputs, node.outputs, offer.input_formats, offer.output_formats, node.threads, device});
}

/// Kernels of several libraries, and versions of one, run beside each other here: each would take what another had packed for its own.
void require_common_formats(const plan::KernelOffer& offer) {
  for (const auto* formats : {&offer.input_formats, &offer.output_formats})
    if (std::ranges::find(*formats, plan::Format::Packed) != formats->end())
      throw InternalError(offer.implementation + " wants or leaves a tensor in a layout of its own, which no other kernel can read");
}

/// How a row would run nodes of these types; nothing when it refuses, with the reason.
std::optional<plan::KernelOffer> offer_of(const KernelRow& row, const plan::LocalNode& node, ComputeDevice* device, std::string& reason) {
  plan::KernelOffer offer;
  offer.implementation = std::string(row.implementation);
  offer.input_formats.assign(node.inputs.size(), plan::Format::Plain);
  offer.output_formats.assign(node.outputs.size(), plan::Format::Plain);
  reason = "images beside it are in another order";
  if (row.formats != nullptr && !row.formats(node, offer.input_formats, offer.output_formats)) return std::nullopt;
  require_common_formats(offer);
  const auto kernel = row.make(request_of(node, offer, device), reason);
  if (kernel == nullptr) return std::nullopt;
  offer.workspace = Bytes(static_cast<double>(kernel->workspace_bytes()));
  offer.engine = kernel->engine();
  for (const auto& types : node.others) {
    const auto other = offer_of(row, with_types(node, types), device, reason);
    if (!other) return std::nullopt;
    reason = "another order of images for micro-batches of another size";
    if (other->input_formats != offer.input_formats || other->output_formats != offer.output_formats) return std::nullopt;
    offer.workspace = std::max(offer.workspace, other->workspace);
  }
  return offer;
}

}  // namespace

std::string signature_of(const plan::LocalNode& node) {
  std::string text = std::string(node.schema.name) + '{' + node.attributes.to_text() + '}' + text_of(node.inputs) + text_of(node.outputs);
  for (const auto& other : node.others) text += text_of(other.inputs) + text_of(other.outputs);
  return text + text_of(node.input_formats) + 't' + std::to_string(node.threads);
}

std::string node_key(const plan::LocalNode& node) {
  return std::string(node.schema.name) + '{' + node.attributes.to_text() + '}' + text_of(node.inputs) + text_of(node.outputs) + 't' +
         std::to_string(node.threads);
}

std::vector<const KernelRow*> KernelTables::rows_of(std::string_view op) const {
  std::vector<const KernelRow*> rows;
  for (const auto& table : tables_)
    for (const auto& row : table)
      if (row.op == op) rows.push_back(&row);
  return rows;
}

std::optional<plan::KernelOffer> KernelTables::offer(const plan::LocalNode& node, std::string& reasons) const {
  std::optional<plan::KernelOffer> expected_slower;
  for (const auto* row : rows_of(node.schema.name)) {
    std::string reason;
    auto offer = offer_of(*row, node, device_, reason);
    if (offer) offer->why = reasons;
    if (offer && (row->preferred == nullptr || row->preferred(node, reason))) return offer;
    if (!reason.empty()) reasons += (reasons.empty() ? "" : "; ") + std::string(row->implementation) + ": " + reason;
    if (!expected_slower) expected_slower = std::move(offer);
  }
  if (expected_slower) expected_slower->why = reasons;
  return expected_slower;
}

std::optional<plan::KernelOffer> KernelTables::offer_by(std::string_view implementation, const plan::LocalNode& node,
                                                        std::string& reason) const {
  for (const auto* row : rows_of(node.schema.name))
    if (row->implementation == implementation)
      if (auto offer = offer_of(*row, node, device_, reason)) return offer;
  return std::nullopt;
}

std::shared_ptr<Kernel> KernelTables::make_by(const KernelRow& row, const KernelRequest& given, std::string& reason) const {
  auto request = with_worthwhile_threads(given);
  request.device = device_;
  const auto signature = signature_of(row, request);
  if (const auto known = shared_.find(signature); known != shared_.end())
    if (auto kernel = known->second.lock()) return kernel;
  std::shared_ptr<Kernel> kernel = row.make(request, reason);
  if (kernel && kernel->is_shareable()) shared_[signature] = kernel;
  return kernel;
}

std::shared_ptr<Kernel> KernelTables::make(const std::string& implementation, const KernelRequest& request) const {
  std::string reason = "unknown implementation";
  for (const auto* row : rows_of(request.schema.name))
    if (row->implementation == implementation)
      if (auto kernel = make_by(*row, request, reason)) return kernel;
  throw Refusal("operator " + std::string(request.schema.name) + " cannot run as " + implementation + ": " + reason);
}

}  // namespace rehearsal::exec
