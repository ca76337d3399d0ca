#include "exec/kernels/widened.hpp"

#include <algorithm>

#include "exec/kernels/narrow.hpp"

namespace rehearsal::exec {
namespace {

using WidenedTypes = std::span<const std::optional<graph::TensorType>>;

constexpr std::int64_t kWidenedAlignment = 64;

bool any_narrow(WidenedTypes types) {
  return std::any_of(types.begin(), types.end(), [](const auto& t) { return t && is_narrow(t->dtype); });
}

graph::Attributes widened(const graph::Attributes& attributes) {
  auto result = attributes;
  for (const std::string_view key : {"to", "dtype"}) {
    const auto* value = attributes.find(key);
    const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    const auto type = text == nullptr ? std::nullopt : dtype_from_name(*text);
    if (type && is_narrow(*type)) result.set(key, std::string(name(DType::F32)));
  }
  return result;
}

}  // namespace

WidenedNode::WidenedNode(const plan::LocalNode& node) : attributes_(widened(node.attributes)) {
  widen(node.inputs, inputs_, input_offsets_);
  widen(node.outputs, outputs_, output_offsets_);
}

WidenedNode::WidenedNode(const KernelRequest& request) : attributes_(widened(request.attributes)) {
  widen(request.inputs, inputs_, input_offsets_);
  widen(request.outputs, outputs_, output_offsets_);
}

bool WidenedNode::applies(WidenedTypes inputs, WidenedTypes outputs) { return any_narrow(inputs) || any_narrow(outputs); }

void WidenedNode::widen(WidenedTypes from, std::vector<std::optional<graph::TensorType>>& to, std::vector<std::int64_t>& offsets) {
  for (const auto& type : from) {
    auto& wide = to.emplace_back(type);
    offsets.push_back(-1);
    if (!type || !is_narrow(type->dtype)) continue;
    wide->dtype = DType::F32;
    offsets.back() = bytes_;
    const auto size = graph::element_count(type->shape) * static_cast<std::int64_t>(sizeof(float));
    bytes_ += (size + kWidenedAlignment - 1) / kWidenedAlignment * kWidenedAlignment;
  }
}

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(WidenedNode node, std::shared_ptr<Kernel> kernel, int threads)
      : node_(std::move(node)), kernel_(std::move(kernel)), threads_(threads) {}

  [[nodiscard]] std::int64_t workspace_bytes() const override { return node_.bytes() + kernel_->workspace_bytes(); }

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    auto* scratch = static_cast<std::byte*>(context.workspace);
    views(inputs, node_.inputs_, node_.input_offsets_, scratch, inputs_);
    views(outputs, node_.outputs_, node_.output_offsets_, scratch, outputs_);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (node_.input_offsets_[i] >= 0 && inputs[i].data != nullptr)
        exec::widen(inputs[i].data, inputs[i].type->dtype, inputs_[i].as<float>(), graph::element_count(inputs[i].type->shape), threads_);
    auto inner = context;
    inner.workspace = kernel_->workspace_bytes() > 0 ? scratch + node_.bytes() : nullptr;
    kernel_->run(inputs_, outputs_, inner);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (node_.output_offsets_[i] >= 0 && outputs[i].data != nullptr)
        exec::narrow(outputs_[i].as<float>(), outputs[i].type->dtype, outputs[i].data, graph::element_count(outputs[i].type->shape),
                     threads_);
  }

 private:
  using Wide = std::vector<std::optional<graph::TensorType>>;

  static void views(std::span<const TensorView> from, const Wide& types, const std::vector<std::int64_t>& offsets, std::byte* scratch,
                    std::vector<TensorView>& to) {
    to.assign(from.begin(), from.end());
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (offsets[i] < 0 || to[i].data == nullptr) continue;
      to[i].data = scratch + offsets[i];
      to[i].type = &*types[i];
    }
  }

  WidenedNode node_;
  std::shared_ptr<Kernel> kernel_;
  int threads_;
  std::vector<TensorView> inputs_, outputs_;
};

std::shared_ptr<Kernel> make_widened(const KernelRequest& request,
                                     const std::function<std::shared_ptr<Kernel>(const KernelRequest&)>& make) {
  WidenedNode node(request);
  const KernelRequest wide{request.schema,        node.attributes(),      node.inputs(),  node.outputs(),
                           request.input_formats, request.output_formats, request.threads};
  auto kernel = make(wide);
  if (kernel == nullptr) return nullptr;
  return std::make_shared<WidenedKernel>(std::move(node), std::move(kernel), request.threads);
}

}  // namespace rehearsal::exec
