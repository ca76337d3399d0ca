#include "exec/play/prepared_kernel.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"

namespace rehearsal::exec {

std::shared_ptr<Kernel> prepared_kernel(const KernelPlace& at, const plan::Instruction& i, std::size_t variant, double rate) {
  const auto& node = at.graph[i.node];
  const auto type = [&](plan::BufferIndex b) { return b == plan::kNoBuffer ? std::nullopt : std::optional(at.operands.type(b, variant)); };
  std::vector<std::optional<graph::TensorType>> inputs, outputs;
  std::ranges::transform(i.inputs, std::back_inserter(inputs), type);
  std::ranges::transform(i.outputs, std::back_inserter(outputs), type);
  const auto& info = at.role.kernels[static_cast<std::size_t>(i.kernel)];
  auto attributes = plan::attributes_of(at.role, i, node);
  if (rate != 1 && plan::follows_rate(at.role, i, at.graph)) attributes.set("lr", node.attributes.number("lr", 0) * rate);
  const KernelRequest request{
      plan::schema_of(at.role, i, node), attributes, inputs, outputs, info.input_formats, info.output_formats, at.threads};
  auto kernel = at.backend.make(info.implementation, request);
  if (kernel->workspace_bytes() > info.workspace_bytes)
    throw InternalError("kernel " + info.implementation + " of " + node.name + " wants more workspace than the plan gave it");
  return kernel;
}

}  // namespace rehearsal::exec
