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

/// The engine that a configuration is of.
DnnDescriptor engine_of(cudnnBackendDescriptor_t configuration) {
  DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto* handle = engine.handle();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
        "reading an engine");
  return engine;
}

/// What of an engine's notes speaks against it. f32 in tensor cores is rounded to tf32; results of f16 that are added up in f16, operands
/// that are narrowed, and sums whose order changes are never wanted.
bool is_refused(cudnnBackendNumericalNote_t note, bool tensor_cores) {
  return note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
         note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || (!tensor_cores && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

bool suits(cudnnBackendDescriptor_t configuration, bool tensor_cores) {
  const auto engine = engine_of(configuration);
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  std::int64_t found = 0;
  check(cudnnBackendGetAttribute(engine.handle(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &found, notes),
        "reading an engine's notes");
  return std::none_of(notes, notes + found, [&](auto note) { return is_refused(note, tensor_cores); });
}

std::string name_of_engine(cudnnBackendDescriptor_t configuration) {
  auto text = "eng" + std::to_string(engine_of(configuration).integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  std::vector<DnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) handles.push_back(choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).handle());
  std::int64_t found = 0;
  check(cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS,
                                 &found, handles.data()),
        "reading an engine's choices");
  for (std::int64_t i = 0; i < found; ++i) {
    const auto& choice = choices[static_cast<std::size_t>(i)];
    cudnnBackendKnobType_t type{};
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(choice.handle(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &type),
          "reading an engine's choices");
    text += "_k" + std::to_string(static_cast<int>(type)) + "=" + std::to_string(choice.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  return text;
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

DnnDescriptor describe_gpu(const std::string& properties) {
  try {
    DnnDescriptor d(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    d.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(properties.size()), properties.c_str())
        .finalize();
    return d;
  } catch (const Refused& refused) {
    throw EnvironmentFailure("GPU: its description was not taken: " + refused.why);
  }
}

DnnPlan::DnnPlan(const DnnTarget& target, DnnDescriptor operation, bool tensor_cores)
    : operation_(std::move(operation)), graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
  if (target.described == nullptr) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  graph_.finalize();
  if (!take_first(CUDNN_HEUR_MODE_A, target, tensor_cores) && !take_first(CUDNN_HEUR_MODE_FALLBACK, target, tensor_cores))
    throw Refused{"cuDNN has no engine for it"};
}

bool DnnPlan::take_first(cudnnBackendHeurMode_t mode, const DnnTarget& target, bool tensor_cores) {
  DnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.described != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.described);
  heuristics.finalize();
  const auto results = [&](std::vector<cudnnBackendDescriptor_t> into) {
    std::int64_t found = 0;
    check(cudnnBackendGetAttribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   static_cast<std::int64_t>(into.size()), &found, into.data()),
          "asking for engines");
    return found;
  };
  // All of them: those that leave f32 as it is come behind dozens that do not.
  std::vector<DnnDescriptor> engines;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (auto left = results({}); left > 0; --left) handles.push_back(engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle());
  const auto found = static_cast<std::size_t>(results(handles));
  return std::any_of(engines.begin(), engines.begin() + static_cast<std::ptrdiff_t>(std::min(found, engines.size())),
                     [&](DnnDescriptor& engine) { return suits(engine.handle(), tensor_cores) && build(target, engine); });
}

bool DnnPlan::build(const DnnTarget& target, DnnDescriptor& engine) {
  try {
    auto plan = std::make_unique<DnnDescriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (target.described != nullptr) plan->set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.described);
    if (target.described == nullptr) plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine).finalize();
    workspace_ = plan->integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    engine_ = name_of_engine(engine.handle());
    chosen_ = std::make_unique<DnnDescriptor>(std::move(engine));
    plan_ = std::move(plan);
    return true;
  } catch (const Refused&) {
    return false;  // the next engine
  }
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
