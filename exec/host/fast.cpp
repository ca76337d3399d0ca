#include "exec/host/fast.hpp"

#include <cstdlib>
#include <vector>

#include "exec/host/second_onednn.hpp"
#include "exec/kernels/native/bf16_dots.hpp"
#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/levels.hpp"
#ifdef REHEARSAL_HAS_ONEDNN
#include "exec/kernels/onednn/families.hpp"
#endif

namespace rehearsal::exec {

std::span<const KernelRow> fast_kernels() {
  static const std::vector<KernelRow> kRows = [] {
    std::vector<KernelRow> rows;
    const auto add = [&](std::span<const KernelRow> more) { rows.insert(rows.end(), more.begin(), more.end()); };
    add(native::winograd_kernels());
    add(native::depthwise_kernels());
#ifdef REHEARSAL_HAS_ONEDNN
    add(onednn::library_kernels().rows);
#endif
    for (auto* family :
         {native::elementwise_kernels, native::normalization_kernels, native::layer_normalization_kernels, native::softmax_kernels,
          native::attention_kernels, native::pooling_kernels, native::reduction_kernels, native::movement_kernels,
          native::picked_element_kernels, native::resizing_kernels, native::rotation_kernels, native::optimizer_kernels})
      add(family());
    return rows;
  }();
  return kRows;
}

std::string kernel_libraries() {
#ifdef REHEARSAL_HAS_ONEDNN
  const auto& second = second_onednn().version;
  return "oneDNN " + onednn::library_version() + (second.empty() ? "" : " and " + second);
#else
  return "none";
#endif
}

std::string kernel_instructions() {
  std::string reason;
  std::string set(native::has_tiles(reason) ? "amx" : native::has_bf16_dots(reason) ? "avx512_bf16" : native::name_of(native::loops()));
  for (const auto* limit : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const char* of_library = std::getenv(limit); of_library != nullptr && *of_library != '\0')
      set += std::string(", in oneDNN ") + of_library;
  return set;
}

}  // namespace rehearsal::exec
