#include "exec/kernels/onednn/primitive.hpp"

#include <omp.h>

#include <optional>
#include <unordered_map>

#include "base/error.hpp"
#include "exec/kernels/onednn/families.hpp"
#include "exec/kernels/onednn/onednn_versions.hpp"
#include "graph/shape.hpp"

namespace rehearsal::exec::onednn {
namespace {

constexpr std::size_t kPrimitiveAlignment = 64;

/// A binding's memory, and how it gets into the primitive's layout and back.
struct Operand {
  bool result = false;
  std::size_t index = 0;
  dnnl::memory given, wanted;
  std::size_t step = 0;
  std::optional<dnnl::reorder> packing;
  std::size_t workspace_offset = 0, scratchpad_offset = 0;
  dnnl::memory scratchpad;
};

std::size_t padded(std::size_t bytes) { return (bytes + kPrimitiveAlignment - 1) / kPrimitiveAlignment * kPrimitiveAlignment; }

class PrimitiveKernel final : public Kernel {
 public:
  explicit PrimitiveKernel(PrimitivePlan plan)
      : build_(std::move(plan.build)),
        build_adding_(std::move(plan.build_adding)),
        pieces_(plan.pieces),
        threads_(plan.threads),
        stream_(cpu()) {
    scratchpad_ = dnnl::memory(plan.scratchpad, cpu(), nullptr);
    bytes_ = padded(plan.scratchpad.get_size() + plan.beyond_scratchpad);
    operands_.reserve(plan.bindings.size());
    for (const auto& binding : plan.bindings) add(binding);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override { return static_cast<std::int64_t>(bytes_); }
  [[nodiscard]] bool is_shareable() const override { return true; }

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    try {
      const ThreadScope threads(threads_);
      if (!primitive_) build();
      auto* workspace = static_cast<std::byte*>(context.workspace);
      scratchpad_.set_data_handle(workspace);
      for (auto& o : operands_) place(o, o.result ? outputs[o.index] : inputs[o.index], workspace);
      for (auto& o : operands_)
        if (!o.result) pack(o, o.given, o.wanted);
      primitive_.execute(stream_, arguments_);
      for (std::size_t piece = 1; piece < pieces_; ++piece) add_piece(piece, inputs);
      for (auto& o : operands_)
        if (o.result) pack(o, o.wanted, o.given);
      stream_.wait();
    } catch (const dnnl::error& error) {
      throw EnvironmentFailure(std::string("oneDNN failed while computing: ") + error.what());
    }
  }

 private:
  void build() {
    primitive_ = build_();
    if (build_adding_) adding_ = build_adding_();
    build_ = build_adding_ = nullptr;  // a description is 10 kB
  }

  void add_piece(std::size_t piece, std::span<const TensorView> inputs) {
    for (auto& o : operands_)
      if (o.step > 0) o.given.set_data_handle(static_cast<std::byte*>(inputs[o.index].data) + piece * o.step);
    adding_.execute(stream_, arguments_);
  }

  void add(const Binding& binding) {
    Operand o{binding.result, binding.index, dnnl::memory(binding.given, cpu(), nullptr), {}, binding.step, std::nullopt, 0, 0, {}};
    if (binding.given == binding.wanted) {
      o.wanted = o.given;
    } else {
      o.wanted = dnnl::memory(binding.wanted, cpu(), nullptr);
      o.workspace_offset = bytes_;
      bytes_ += padded(binding.wanted.get_size());
      const auto& from = binding.result ? binding.wanted : binding.given;
      const auto& to = binding.result ? binding.given : binding.wanted;
      const dnnl::reorder::primitive_desc description(cpu(), from, cpu(), to, with_scratchpad());
      o.scratchpad = dnnl::memory(description.scratchpad_desc(), cpu(), nullptr);
      o.scratchpad_offset = bytes_;
      bytes_ += padded(description.scratchpad_desc().get_size());
      o.packing = dnnl::reorder(description);
    }
    arguments_[binding.argument] = o.wanted;
    arguments_[DNNL_ARG_SCRATCHPAD] = scratchpad_;
    operands_.push_back(std::move(o));
  }

  static void place(Operand& o, const TensorView& view, std::byte* workspace) {
    o.given.set_data_handle(view.data);
    if (!o.packing) return;
    o.wanted.set_data_handle(workspace + o.workspace_offset);
    o.scratchpad.set_data_handle(workspace + o.scratchpad_offset);
  }

  void pack(Operand& o, dnnl::memory& from, dnnl::memory& to) {
    if (o.packing) o.packing->execute(stream_, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, o.scratchpad}});
  }

  std::function<dnnl::primitive()> build_, build_adding_;
  std::size_t pieces_;
  int threads_;
  dnnl::stream stream_;
  dnnl::primitive primitive_, adding_;
  dnnl::memory scratchpad_;
  std::vector<Operand> operands_;
  std::unordered_map<int, dnnl::memory> arguments_;  // share their memory objects with the operands
  std::size_t bytes_ = 0;
};

}  // namespace

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr with_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory::data_type data_type(DType type) { return type == DType::BF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32; }

dnnl::memory::desc described(const graph::TensorType& type, plan::Format format) {
  const auto& shape = type.shape;
  dnnl::memory::dims strides(shape.size(), 1);
  const std::size_t rank = shape.size();
  if (format == plan::Format::ChannelsLast) {
    std::int64_t step = shape[1];
    for (std::size_t d = rank; d-- > 2;) strides[d] = step, step *= shape[d];
    strides[0] = step;
  } else {
    for (std::size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  }
  return {dnnl::memory::dims(shape.begin(), shape.end()), data_type(type.dtype), strides};
}

dnnl::memory::desc any_layout(const dnnl::memory::desc& desc) { return {dims_of(desc), type_of(desc), dnnl::memory::format_tag::any}; }

std::string library_version() {
  const auto* v = dnnl::version();
  return std::to_string(v->major) + '.' + std::to_string(v->minor) + '.' + std::to_string(v->patch);
}

std::unique_ptr<Kernel> make_kernel(PrimitivePlan plan) { return std::make_unique<PrimitiveKernel>(std::move(plan)); }

std::unique_ptr<Kernel> or_refuse(int threads, std::string& reason, const std::function<std::unique_ptr<Kernel>()>& make) {
  try {
    const ThreadScope scope(threads);
    return make();
  } catch (const dnnl::error& error) {
    reason = std::string("oneDNN: ") + error.what();
    return nullptr;
  }
}

namespace {

bool uses(dnnl::cpu_isa instructions) {
  static const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(instructions);
  return (used & wanted) == wanted;
}

/// True when oneDNN uses the processor's instructions for products of bf16; ONEDNN_MAX_CPU_ISA can forbid them.
bool multiplies_bf16() { return uses(dnnl::cpu_isa::avx512_core_bf16); }

bool has_units(DType type, std::string& reason) {
  if (type == DType::F32) return true;
  if (type == DType::F16)
    reason = "f16 with sums in f32 wants AMX-FP16, which is not used here";
  else if (type != DType::BF16)
    reason = "only f32 and bf16, not " + std::string(name(type));
  else if (!multiplies_bf16())
    reason = "bf16 wants AVX512_BF16 or AMX, which this processor lacks or ONEDNN_MAX_CPU_ISA forbids";
  else
    return true;
  return false;
}

}  // namespace

bool has_amx() { return uses(dnnl::cpu_isa::avx512_core_amx); }

bool takes(const KernelRequest& request, std::string& reason) {
  const DType wanted = request.view().input(0).dtype;
  if (!has_units(wanted, reason)) return false;
  for (const auto* types : {&request.inputs, &request.outputs})
    for (const auto& type : *types) {
      if (!type) continue;
      if (type->dtype != wanted)
        reason = "operands and results of one type, not " + std::string(name(wanted)) + " and " + std::string(name(type->dtype));
      else if (graph::element_count(type->shape) == 0)
        reason = "an empty tensor";
      else
        continue;
      return false;
    }
  return true;
}

}  // namespace rehearsal::exec::onednn
