// The calls of CUDA's runtime that the backend makes, on the machine of machine.hpp. What the calls mean follows NVIDIA, "CUDA Runtime
// API", above all "API synchronization behavior": a copy from pageable memory has read it when the call returns, one to pageable memory is
// done, one that pinned memory takes part in is only asked for.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "exec/comm/communicator.hpp"
#include "tests/exec/gpu/double/machine.hpp"

using rehearsal::exec::gpu_double::Event;
using rehearsal::exec::gpu_double::machine;
using rehearsal::exec::gpu_double::Stream;
using rehearsal::exec::gpu_double::Work;

namespace {

cudaError_t begin(const char* call) { return static_cast<cudaError_t>(machine().begin(call)); }

Stream* of(cudaStream_t stream) { return reinterpret_cast<Stream*>(stream); }
Event& of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

struct ErrorText {
  const char *name, *text;
};
/// As the runtime words them, of those that tests let happen.
ErrorText text_of(cudaError_t error) {
  static const std::map<int, ErrorText> kTexts{
      {cudaErrorMemoryAllocation, {"cudaErrorMemoryAllocation", "out of memory"}},
      {cudaErrorInsufficientDriver, {"cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"}},
      {cudaErrorNoDevice, {"cudaErrorNoDevice", "no CUDA-capable device is detected"}},
      {cudaErrorECCUncorrectable, {"cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"}},
      {cudaErrorLaunchFailure, {"cudaErrorLaunchFailure", "unspecified launch failure"}},
      {cudaErrorSystemDriverMismatch,
       {"cudaErrorSystemDriverMismatch", "system has unsupported display driver / cuda driver combination"}}};
  const auto found = kTexts.find(error);
  return found == kTexts.end() ? ErrorText{"cudaErrorUnknown", "unknown error"} : found->second;
}

}  // namespace

extern "C" {

const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }
const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  const char* gpus = std::getenv("REHEARSAL_DOUBLE_GPUS");
  *count = gpus == nullptr ? 1 : std::atoi(gpus);
  return begin("cudaGetDeviceCount");
}
cudaError_t cudaSetDevice(int) { return begin("cudaSetDevice"); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "a double of a GPU");
  return begin("cudaGetDeviceProperties");
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(machine().make_stream());
  return begin("cudaStreamCreateWithFlags");
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  machine().destroy(of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto error = begin("cudaStreamSynchronize"); error != cudaSuccess) return error;
  machine().finish(of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  machine().wait_for(of(stream), of(event));
  return begin("cudaStreamWaitEvent");
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new Event());
  return begin("cudaEventCreate");
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto& e = of(event);
  machine().ask(of(stream), Work{"cudaEventRecord", {}, [&e] { e.time = rehearsal::exec::now_seconds(); }});
  machine().record(e, of(stream));
  return begin("cudaEventRecord");
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto error = begin("cudaEventSynchronize"); error != cudaSuccess) return error;
  machine().finish(of(event));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto error = begin("cudaEventQuery"); error != cudaSuccess) return error;
  return machine().has_happened(of(event)) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = static_cast<float>((of(to).time - of(from).time) * 1e3);
  return begin("cudaEventElapsedTime");
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (const auto error = begin("cudaMalloc"); error != cudaSuccess) return error;
  *data = machine().allocate(bytes, false);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  if (const auto error = begin("cudaHostAlloc"); error != cudaSuccess) return error;
  *data = machine().allocate(bytes, true);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  machine().release(data);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  machine().release(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = machine().free_bytes();
  *all = machine().all_bytes();
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  *attributes = {};
  attributes->type = machine().is_device(data)   ? cudaMemoryTypeDevice
                     : machine().is_pinned(data) ? cudaMemoryTypeHost
                                                 : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (const auto error = begin("cudaMemsetAsync"); error != cudaSuccess) return error;
  machine().ask(of(stream), {"cudaMemsetAsync", {{to, bytes, true}}, [=] { std::memset(to, value, bytes); }});
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (const auto error = begin("cudaMemcpyAsync"); error != cudaSuccess) return error;
  auto& m = machine();
  const bool from_pageable = !m.is_device(from) && !m.is_pinned(from), to_pageable = !m.is_device(to) && !m.is_pinned(to);
  if (from_pageable) {
    const auto* begin = static_cast<const std::byte*>(from);
    std::vector<std::byte> copy(begin, begin + bytes);
    m.ask(of(stream),
          {"cudaMemcpyAsync", {{to, bytes, true}}, [to, copy = std::move(copy)] { std::memcpy(to, copy.data(), copy.size()); }});
  } else {
    m.ask(of(stream), {"cudaMemcpyAsync", {{from, bytes, false}, {to, bytes, true}}, [=] { std::memcpy(to, from, bytes); }});
  }
  if (to_pageable) m.finish(of(stream));
  return cudaSuccess;
}

}  // extern "C"
