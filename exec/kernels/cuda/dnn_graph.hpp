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

/// A GPU that is not here, from the JSON of its properties (device_properties.hpp). Throws EnvironmentFailure when cuDNN does not take it.
[[nodiscard]] DnnDescriptor describe_gpu(const std::string& properties);

/// Whom a plan is for: the GPU behind a handle, or the one that describe_gpu() made.
struct DnnTarget {
  cudnnHandle_t handle = nullptr;
  const DnnDescriptor* described = nullptr;
};

/// A graph of one operation as the first engine runs it that cuDNN proposes and that adds up in f32 (of f64 in f64), in an order that does
/// not change from run to run.
class DnnPlan {
 public:
  /// `tensor_cores`: f32 may be rounded to 10 bits of fraction for them. Throws Refused when there is no engine.
  DnnPlan(const DnnTarget& target, DnnDescriptor operation, bool tensor_cores);
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_; }
  /// The engine and its choices as cuDNN's own logs name them: "eng38_k2=1_k14=4".
  [[nodiscard]] const std::string& engine() const { return engine_; }
  /// Pointers in the order of ids.
  void run(cudnnHandle_t handle, const std::vector<std::int64_t>& ids, const std::vector<void*>& pointers, void* workspace) const;

 private:
  /// Takes the first of the engines that this way of guessing proposes; false: none suits.
  bool take_first(cudnnBackendHeurMode_t mode, const DnnTarget& target, bool tensor_cores);
  bool build(const DnnTarget& target, DnnDescriptor& engine);

  DnnDescriptor operation_, graph_;
  std::unique_ptr<DnnDescriptor> chosen_, plan_;
  std::string engine_;
  std::int64_t workspace_ = 0;
};

}  // namespace rehearsal::exec::cuda
