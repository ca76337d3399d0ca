#include "exec/kernels/reference/widened.hpp"

#include <algorithm>

#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {
namespace {

using WidenedTypes = std::vector<std::optional<graph::TensorType>>;

bool is_narrow_of_widened(DType type) { return type == DType::F16 || type == DType::BF16; }

WidenedTypes widened(std::span<const std::optional<graph::TensorType>> types) {
  WidenedTypes wide(types.begin(), types.end());
  for (auto& type : wide)
    if (type && is_narrow_of_widened(type->dtype)) type->dtype = DType::F32;
  return wide;
}

/// Attributes that name an element type name the wide one.
graph::Attributes widened(graph::Attributes attributes) {
  for (const char* key : {"to", "dtype"}) {
    const auto* value = attributes.find(key);
    const auto* text = value ? std::get_if<std::string>(value) : nullptr;
    const auto type = text ? dtype_from_name(*text) : std::nullopt;
    if (type && is_narrow_of_widened(*type)) attributes.set(key, std::string(name(DType::F32)));
  }
  return attributes;
}

void convert(const void* from, DType from_type, void* to, DType to_type, const graph::Shape& shape) {
  const auto* bytes = static_cast<const std::byte*>(from);
  const std::size_t size = static_cast<std::size_t>(graph::element_count(shape)) * size_of(from_type);
  const graph::Contents contents{from_type, graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(bytes, bytes + size)}};
  graph::read_into(contents, shape, to_type, {}, to);
}

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const KernelRequest& request, MakeKernel make, std::string& reason)
      : inputs_(widened(request.inputs)), outputs_(widened(request.outputs)), attributes_(widened(request.attributes)) {
    KernelRequest wide{request.schema, attributes_, inputs_, outputs_, request.input_formats, request.output_formats, request.threads};
    kernel_ = make(wide, reason);
  }
  [[nodiscard]] bool works() const { return kernel_ != nullptr; }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    Buffers from(inputs, inputs_), to(outputs, outputs_);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (from.narrow(i)) convert(inputs[i].data, inputs[i].type->dtype, from.views[i].data, DType::F32, inputs[i].type->shape);
    kernel_->run(from.views, to.views, context);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (to.narrow(i)) convert(to.views[i].data, DType::F32, outputs[i].data, outputs[i].type->dtype, outputs[i].type->shape);
  }

 private:
  /// Views in which narrow tensors are wide.
  struct Buffers {
    Buffers(std::span<const TensorView> narrow_views, const WidenedTypes& types)
        : views(narrow_views.begin(), narrow_views.end()), held(views.size()) {
      for (std::size_t i = 0; i < views.size(); ++i) {
        if (!views[i].data || !is_narrow_of_widened(views[i].type->dtype)) continue;
        held[i].resize(static_cast<std::size_t>(graph::element_count(views[i].type->shape)) + 1);
        views[i].data = held[i].data();
        views[i].type = &*types[i];
      }
    }
    [[nodiscard]] bool narrow(std::size_t i) const { return !held[i].empty(); }
    std::vector<TensorView> views;
    std::vector<std::vector<float>> held;
  };

  WidenedTypes inputs_, outputs_;
  graph::Attributes attributes_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> make_widened(const KernelRequest& request, MakeKernel make, std::string& reason) {
  const auto narrow = [](const std::optional<graph::TensorType>& type) { return type && is_narrow_of_widened(type->dtype); };
  if (std::none_of(request.inputs.begin(), request.inputs.end(), narrow) &&
      std::none_of(request.outputs.begin(), request.outputs.end(), narrow))
    return nullptr;
  auto kernel = std::make_unique<WidenedKernel>(request, make, reason);
  if (!kernel->works()) return nullptr;
  return kernel;
}

}  // namespace rehearsal::exec::reference
