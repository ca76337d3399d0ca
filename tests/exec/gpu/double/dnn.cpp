// The calls of cuDNN that the backend makes: convolutions and their gradients as graphs of one operation, added up in f64. What attributes
// mean follows NVIDIA, "cuDNN Backend API". Four engines are proposed; only the last may be taken where f32 is to stay f32.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/exec/gpu/double/elements.hpp"
#include "tests/exec/gpu/double/machine.hpp"

using namespace rehearsal::exec::gpu_double;

namespace {

struct State;
using Shared = std::shared_ptr<State>;

/// What a descriptor is, shared by all that were told of it: who set it may destroy its own.
struct State {
  cudnnBackendDescriptorType_t type{};
  bool is_final = false;
  std::map<int, std::vector<std::byte>> values;
  std::map<int, Shared> parts;
  int engine = -1;

  template <class T>
  [[nodiscard]] std::vector<T> list(int name) const {
    const auto at = values.find(name);
    if (at == values.end()) return {};
    std::vector<T> result(at->second.size() / sizeof(T));
    std::memcpy(result.data(), at->second.data(), result.size() * sizeof(T));
    return result;
  }
  template <class T = std::int64_t>
  [[nodiscard]] T one(int name) const {
    const auto all = list<T>(name);
    return all.empty() ? T{} : all.front();
  }
  [[nodiscard]] const State& part(int name) const { return *parts.at(name); }
};

struct Handle {
  cudaStream_t stream = nullptr;
};

State& state(cudnnBackendDescriptor_t d) { return **static_cast<Shared*>(d); }
Shared& shared(cudnnBackendDescriptor_t d) { return *static_cast<Shared*>(d); }

struct EngineRow {
  std::optional<cudnnBackendNumericalNote_t> note;
  bool builds = true;
  std::int64_t workspace = 0;
};
constexpr std::array kEngines{EngineRow{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, true, 1 << 16}, EngineRow{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
                              EngineRow{{}, false}, EngineRow{{}, true, 4096}};

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
      return 8;
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

/// A tensor of a convolution: N, channels, then its extent.
struct Image {
  std::int64_t id = 0, alignment = 1;
  rehearsal::DType type{};
  std::vector<std::int64_t> sizes, strides;

  explicit Image(const State& s)
      : id(s.one(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
        alignment(s.one(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
        sizes(s.list<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(s.list<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES)) {
    const auto data_type = s.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    type = data_type == CUDNN_DATA_DOUBLE     ? rehearsal::DType::F64
           : data_type == CUDNN_DATA_HALF     ? rehearsal::DType::F16
           : data_type == CUDNN_DATA_BFLOAT16 ? rehearsal::DType::BF16
                                              : rehearsal::DType::F32;
  }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
    return last + 1;
  }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements()) * rehearsal::size_of(type); }
};

struct Names {
  int x, w, y, convolution, alpha, beta;
};
Names names_of(cudnnBackendDescriptorType_t operation) {
  if (operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  if (operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

/// y[n, k, o] = sum over c, f of x[n, c, o * stride - low + f * dilation] w[k, c, f], each group of channels by itself.
struct Convolution {
  Image x, w, y;
  std::vector<std::int64_t> low, high, strides, dilations;

  explicit Convolution(const State& operation)
      : x(operation.part(names_of(operation.type).x)),
        w(operation.part(names_of(operation.type).w)),
        y(operation.part(names_of(operation.type).y)) {
    const auto& c = operation.part(names_of(operation.type).convolution);
    low = c.list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    high = c.list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    strides = c.list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    dilations = c.list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  }

  [[nodiscard]] bool is_consistent() const {
    const auto rank = low.size();
    if (x.sizes.size() != rank + 2 || w.sizes.size() != rank + 2 || y.sizes.size() != rank + 2) return false;
    if (x.sizes[0] != y.sizes[0] || w.sizes[0] != y.sizes[1] || x.sizes[1] % w.sizes[1] != 0) return false;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto span = (w.sizes[d + 2] - 1) * dilations[d] + 1;
      if (y.sizes[d + 2] != (x.sizes[d + 2] + low[d] + high[d] - span) / strides[d] + 1) return false;
    }
    return true;
  }

  /// use(place in x, in w, in y) for every product.
  template <class Use>
  void each(const Use& use) const {
    const auto groups = x.sizes[1] / w.sizes[1], of_group = w.sizes[0] / groups;
    for (std::int64_t n = 0; n < y.sizes[0]; ++n)
      for (std::int64_t k = 0; k < w.sizes[0]; ++k)
        for (std::int64_t c = 0; c < w.sizes[1]; ++c)
          along(0, n * x.strides[0] + (k / of_group * w.sizes[1] + c) * x.strides[1], k * w.strides[0] + c * w.strides[1],
                n * y.strides[0] + k * y.strides[1], use);
  }

 private:
  template <class Use>
  void along(std::size_t d, std::int64_t in_x, std::int64_t in_w, std::int64_t in_y, const Use& use) const {
    if (d == low.size()) return use(in_x, in_w, in_y);
    for (std::int64_t o = 0; o < y.sizes[d + 2]; ++o)
      for (std::int64_t f = 0; f < w.sizes[d + 2]; ++f) {
        const auto i = o * strides[d] - low[d] + f * dilations[d];
        if (i < 0 || i >= x.sizes[d + 2]) continue;
        along(d + 1, in_x + i * x.strides[d + 2], in_w + f * w.strides[d + 2], in_y + o * y.strides[d + 2], use);
      }
  }
};

/// Sums, by place in the result's memory.
struct Sums {
  explicit Sums(const Image& image) : values(static_cast<std::size_t>(image.elements()), 0) {}
  std::vector<double> values;
  void write(const Image& image, void* data) const {
    std::vector<std::int64_t> index(image.sizes.size(), 0);
    for (bool more = true; more;) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * image.strides[d];
      set_element(image.type, data, at, values[static_cast<std::size_t>(at)]);
      more = false;
      for (std::size_t d = index.size(); d-- > 0 && !more;) more = ++index[d] < image.sizes[d] || (index[d] = 0, false);
    }
  }
};

struct Pointers {
  void *x = nullptr, *w = nullptr, *y = nullptr;
};

void compute(cudnnBackendDescriptorType_t operation, const Convolution& c, const Pointers& at) {
  const auto sum = [&](const Image& into, void* data, const auto& product) {
    Sums sums(into);
    c.each([&](auto in_x, auto in_w, auto in_y) { product(sums.values, in_x, in_w, in_y); });
    sums.write(into, data);
  };
  const auto value = [](const Image& image, const void* data, std::int64_t i) { return element(image.type, data, i); };
  const auto place = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  if (operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
    sum(c.y, at.y, [&](auto& sums, auto i, auto f, auto o) { sums[place(o)] += value(c.x, at.x, i) * value(c.w, at.w, f); });
  else if (operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
    sum(c.x, at.x, [&](auto& sums, auto i, auto f, auto o) { sums[place(i)] += value(c.y, at.y, o) * value(c.w, at.w, f); });
  else
    sum(c.w, at.w, [&](auto& sums, auto i, auto f, auto o) { sums[place(f)] += value(c.x, at.x, i) * value(c.y, at.y, o); });
}

bool is_operation(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

const State& operation_of(const State& plan) {
  return plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).part(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

const EngineRow& engine_row(const State& s) { return kEngines[static_cast<std::size_t>(s.engine)]; }

template <class T>
cudnnStatus_t give(void* values, std::int64_t* count, T value) {
  std::memcpy(values, &value, sizeof value);
  *count = 1;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t give_engines(const State& heuristics, std::int64_t wanted, std::int64_t* count, void* values) {
  const bool fallback = heuristics.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
  const auto proposed = fallback ? std::size_t{0} : kEngines.size();
  *count = static_cast<std::int64_t>(proposed);
  for (std::size_t i = 0; i < std::min<std::size_t>(proposed, static_cast<std::size_t>(wanted)); ++i) {
    auto& configuration = state(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
    configuration.engine = static_cast<int>(i);
    configuration.parts[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = heuristics.parts.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() {
  const char* version = std::getenv("REHEARSAL_DOUBLE_CUDNN");
  return version == nullptr ? CUDNN_VERSION : std::stoul(version);
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED                 ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == CUDNN_STATUS_BAD_PARAM                   ? "CUDNN_STATUS_BAD_PARAM"
         : status == CUDNN_STATUS_EXECUTION_FAILED            ? "CUDNN_STATUS_EXECUTION_FAILED"
         : status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH ? "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"
                                                              : "CUDNN_STATUS_NOT_INITIALIZED";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle());
  return static_cast<cudnnStatus_t>(machine().begin("cudnnCreate"));
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Shared(std::make_shared<State>());
  state(*descriptor).type = type;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &shared(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  auto& s = state(descriptor);
  if (s.is_final) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    s.parts[name] = shared(static_cast<const cudnnBackendDescriptor_t*>(values)[0]);
    return s.parts[name]->is_final || s.parts[name]->engine >= 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
  }
  const auto* begin = static_cast<const std::byte*>(values);
  s.values[name].assign(begin, begin + bytes_of(type) * static_cast<std::size_t>(count));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  auto& s = state(descriptor);
  s.is_final = true;
  if (is_operation(s.type)) return Convolution(s).is_consistent() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
  if (s.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  return engine_row(s.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)).builds ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t,
                                       std::int64_t wanted, std::int64_t* count, void* values) {
  auto& s = state(descriptor);
  *count = 0;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return give_engines(s, wanted, count, values);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      state(*static_cast<cudnnBackendDescriptor_t*>(values)).engine = s.engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return give<std::int64_t>(values, count, s.engine);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return engine_row(s).note ? give(values, count, *engine_row(s).note) : CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return give<std::int64_t>(values, count, engine_row(s.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)).workspace);
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  if (machine().begin("cudnnBackendExecute") != 0) return CUDNN_STATUS_EXECUTION_FAILED;
  const auto& operation = operation_of(state(plan));
  const Convolution c(operation);
  const auto ids = state(pack).list<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto data = state(pack).list<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  auto* const workspace = state(pack).one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const auto needed = engine_row(state(plan).part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)).workspace;
  const auto pointer = [&](const Image& image) -> void* {
    const auto at = std::ranges::find(ids, image.id);
    if (at == ids.end()) return nullptr;
    void* p = data[static_cast<std::size_t>(at - ids.begin())];
    return reinterpret_cast<std::uintptr_t>(p) % static_cast<std::uintptr_t>(image.alignment) == 0 ? p : nullptr;
  };
  const Pointers at{pointer(c.x), pointer(c.w), pointer(c.y)};
  if (at.x == nullptr || at.w == nullptr || at.y == nullptr || (needed > 0 && workspace == nullptr)) return CUDNN_STATUS_BAD_PARAM;
  const auto type = operation.type;
  const bool into_x = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
             into_w = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  machine().ask(reinterpret_cast<Stream*>(reinterpret_cast<Handle*>(handle)->stream),
                {"cudnnBackendExecute",
                 {{at.x, c.x.bytes(), into_x},
                  {at.w, c.w.bytes(), into_w},
                  {at.y, c.y.bytes(), !into_x && !into_w},
                  {workspace, static_cast<std::size_t>(needed), true}},
                 [type, c, at] { compute(type, c, at); }});
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
