#pragma once
// A oneDNN primitive as a kernel: operands in the caller's layouts, packed into the primitive's own in the workspace where they differ.

#include <omp.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dnnl.hpp>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::onednn {

/// oneDNN reads the number of threads from OpenMP, both when a primitive is described and when it runs.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadScope() { omp_set_num_threads(before_); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

[[nodiscard]] const dnnl::engine& cpu();
/// Scratch memory comes from the kernel's workspace, so that a plan knows all memory.
[[nodiscard]] dnnl::primitive_attr with_scratchpad();

/// Of an element type that takes() lets pass.
[[nodiscard]] dnnl::memory::data_type data_type(DType type);
/// Memory of a local tensor, as it lies in the arena.
[[nodiscard]] dnnl::memory::desc described(const graph::TensorType& type, plan::Format format);
/// The same shape in whichever layout the primitive likes best.
[[nodiscard]] dnnl::memory::desc any_layout(const dnnl::memory::desc& desc);

/// One argument of the primitive.
struct Binding {
  int argument;  ///< DNNL_ARG_...
  bool result;   ///< of the kernel: results[index], else operands[index]
  std::size_t index;
  dnnl::memory::desc given, wanted;  ///< as it lies in the arena; as the primitive takes it
  std::size_t step = 0;              ///< bytes from one piece of a sum to the next; such operands lie as the primitive takes them
};

struct PrimitivePlan {
  std::function<dnnl::primitive()> build;  ///< called at the first run: it compiles machine code
  dnnl::memory::desc scratchpad;
  std::vector<Binding> bindings;
  int threads = 1;
  std::size_t beyond_scratchpad = 0;                   ///< bytes behind the scratchpad that the primitive writes to
  std::size_t pieces = 1;                              ///< of the sum that the results are
  std::function<dnnl::primitive()> build_adding = {};  ///< adds a piece after the first to the results
};

[[nodiscard]] std::unique_ptr<Kernel> make_kernel(PrimitivePlan plan);

/// Throws dnnl::error where oneDNN would compute in 16 bits with nothing but its reference loops, which are slower than f32.
template <class Description>
const Description& worthwhile(const Description& description, DType type) {
  if (type != DType::F32 && std::string_view(description.impl_info_str()).starts_with("ref"))
    throw dnnl::error(dnnl_unimplemented, "only its reference loops");
  return description;
}

/// Runs `make`; what oneDNN throws becomes a refusal.
[[nodiscard]] std::unique_ptr<Kernel> or_refuse(int threads, std::string& reason, const std::function<std::unique_ptr<Kernel>()>& make);

/// True when oneDNN uses the processor's AMX units for bf16; ONEDNN_MAX_CPU_ISA can forbid them.
[[nodiscard]] bool has_amx();

/// True when every operand and result has one type, f32 or bf16, that the processor has units for, and elements; else says why not.
[[nodiscard]] bool takes(const KernelRequest& request, std::string& reason);

}  // namespace rehearsal::exec::onednn
