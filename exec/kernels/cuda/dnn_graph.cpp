#include "exec/kernels/cuda/dnn_graph.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::exec::cuda {
namespace {

void check(cudnnStatus_t status, const char* doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string text = std::string("cuDNN: ") + doing + ": " + cudnnGetErrorString(status);
  if (status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR) throw Refused{text};
  if (status >= CUDNN_STATUS_BAD_PARAM && status < CUDNN_STATUS_NOT_SUPPORTED) throw Refused{text};
  throw EnvironmentFailure("GPU: " + text);
}

/// f32 factors rounded for tensor cores.
bool rounds_to_tf32(cudnnBackendDescriptor_t configuration) {
  cudnnBackendDescriptor_t engine = nullptr;
  check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), "reading an engine");
  std::int64_t count = 0;
  (void)cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  std::int64_t found = 0;
  (void)cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                 &found, notes);
  (void)cudnnBackendDestroyDescriptor(engine);
  return std::any_of(notes, notes + found, [](auto note) {
    return note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
  });
}

}  // namespace

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type) { check(cudnnBackendCreateDescriptor(type, &handle_), "a descriptor"); }
DnnDescriptor::~DnnDescriptor() {
  if (handle_ != nullptr) (void)cudnnBackendDestroyDescriptor(handle_);
}
DnnDescriptor::DnnDescriptor(DnnDescriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                                  const void* values) {
  check(cudnnBackendSetAttribute(handle_, name, type, count, values), "setting an attribute");
  return *this;
}
DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, const DnnDescriptor& other) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_);
}
DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t type) {
  return set(name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}
DnnDescriptor& DnnDescriptor::set_real(cudnnBackendAttributeName_t name, double value, DType type) {
  const auto narrow = static_cast<float>(value);
  return type == DType::F64 ? set(name, CUDNN_TYPE_DOUBLE, 1, &value) : set(name, CUDNN_TYPE_FLOAT, 1, &narrow);
}
DnnDescriptor& DnnDescriptor::finalize() {
  check(cudnnBackendFinalize(handle_), "what is asked is not supported");
  return *this;
}
std::int64_t DnnDescriptor::integer(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  check(cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_INT64, 1, &count, &value), "reading an attribute");
  return value;
}

cudnnDataType_t dnn_type(DType type) {
  return type == DType::F64    ? CUDNN_DATA_DOUBLE
         : type == DType::F16  ? CUDNN_DATA_HALF
         : type == DType::BF16 ? CUDNN_DATA_BFLOAT16
                               : CUDNN_DATA_FLOAT;
}

DnnDescriptor describe(const DnnTensor& t) {
  DnnDescriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, dnn_type(t.type))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, t.sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, t.strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t.alignment)
      .finalize();
  return d;
}

DnnPlan::DnnPlan(cudnnHandle_t handle, DnnDescriptor operation, bool tf32)
    : operation_(std::move(operation)), graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_).set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle).finalize();
  DnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode).finalize();
  constexpr std::int64_t kMost = 16;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < kMost; ++i) handles.push_back(candidates_.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle());
  std::int64_t found = 0;
  check(cudnnBackendGetAttribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kMost, &found,
                                 handles.data()),
        "asking for engines");
  for (std::int64_t i = 0; i < found && !plan_; ++i) {
    const auto& candidate = candidates_[static_cast<std::size_t>(i)];
    if (!tf32 && rounds_to_tf32(candidate.handle())) continue;
    try {
      auto plan = std::make_unique<DnnDescriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate)
          .finalize();
      workspace_ = plan->integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      plan_ = std::move(plan);
    } catch (const Refused&) {
      continue;  // the next engine
    }
  }
  if (!plan_) throw Refused{"cuDNN has no engine for it"};
}

void DnnPlan::run(cudnnHandle_t handle, const std::vector<std::int64_t>& ids, const std::vector<void*>& pointers, void* workspace) const {
  DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()), pointers.data())
      .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)
      .finalize();
  if (const auto status = cudnnBackendExecute(handle, plan_->handle(), pack.handle()); status != CUDNN_STATUS_SUCCESS)
    throw EnvironmentFailure(std::string("GPU: cuDNN: running a plan: ") + cudnnGetErrorString(status));
}

}  // namespace rehearsal::exec::cuda
