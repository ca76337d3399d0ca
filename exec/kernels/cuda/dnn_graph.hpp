#pragma once
// cuDNN's graphs of operations: descriptors that are set up once, and the plan of the engine that its heuristics put first.
// Reference: NVIDIA, "cuDNN Backend API".

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.hpp"

namespace rehearsal::exec::cuda {

/// A descriptor of cuDNN's backend. Throws EnvironmentFailure, or Refused where cuDNN does not support what is described.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(cudnnBackendDescriptorType_t);
  ~DnnDescriptor();
  DnnDescriptor(DnnDescriptor&&) noexcept;
  DnnDescriptor(const DnnDescriptor&) = delete;
  DnnDescriptor& operator=(const DnnDescriptor&) = delete;
  DnnDescriptor& operator=(DnnDescriptor&&) = delete;

  DnnDescriptor& set(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::int64_t count, const void* values);
  DnnDescriptor& set(cudnnBackendAttributeName_t, std::int64_t);
  DnnDescriptor& set(cudnnBackendAttributeName_t, const std::vector<std::int64_t>&);
  DnnDescriptor& set(cudnnBackendAttributeName_t, const DnnDescriptor&);
  DnnDescriptor& set(cudnnBackendAttributeName_t, cudnnDataType_t);
  DnnDescriptor& set_real(cudnnBackendAttributeName_t, double value, DType type);  ///< f32, or f64 for operands in f64
  DnnDescriptor& finalize();
  [[nodiscard]] cudnnBackendDescriptor_t handle() const { return handle_; }
  [[nodiscard]] std::int64_t integer(cudnnBackendAttributeName_t) const;

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// What cuDNN refuses: a kernel's reason, no failure.
struct Refused {
  std::string why;
};

[[nodiscard]] cudnnDataType_t dnn_type(DType);

struct DnnTensor {
  std::int64_t id = 0;
  DType type = DType::F32;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t alignment = 16;  ///< bytes
};
[[nodiscard]] DnnDescriptor describe(const DnnTensor&);

/// A graph of one operation as the first engine runs it that cuDNN proposes and `tf32` allows.
class DnnPlan {
 public:
  /// Throws Refused when there is no engine.
  DnnPlan(cudnnHandle_t handle, DnnDescriptor operation, bool tf32);
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_; }
  /// Pointers in the order of ids.
  void run(cudnnHandle_t handle, const std::vector<std::int64_t>& ids, const std::vector<void*>& pointers, void* workspace) const;

 private:
  DnnDescriptor operation_, graph_;
  std::vector<DnnDescriptor> candidates_;
  std::unique_ptr<DnnDescriptor> plan_;
  std::int64_t workspace_ = 0;
};

}  // namespace rehearsal::exec::cuda
