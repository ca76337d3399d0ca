#include "exec/kernels/cuda/gpu.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/host/stashes.hpp"
#include "exec/kernels/cuda/library_calls.hpp"
#include "exec/kernels/cuda/nccl_collectives.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// GPUs of this machine; refuses a machine without one.
int count_of_gpus() {
  int count = 0;
  const auto status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    throw EnvironmentFailure(std::string("--backend cuda: this machine shows no NVIDIA GPU (") + cudaGetErrorString(status) +
                             "); a driver for CUDA 13 or later is needed, `nvidia-smi` shows what there is");
  check(status, "asking for GPUs");
  return count;
}

[[noreturn]] void out_of_memory(std::int64_t bytes) {
  std::size_t free = 0, all = 0;
  (void)cudaGetLastError();
  (void)cudaMemGetInfo(&free, &all);
  throw EnvironmentFailure(
      "memory: " + to_text(Bytes(static_cast<double>(bytes))) + " for the arena of this rank could not be had on the GPU, which has " +
      to_text(Bytes(static_cast<double>(free))) + " free of " + to_text(Bytes(static_cast<double>(all))) + "; use a plan that needs less");
}

}  // namespace

Gpu::Gpu(int rank_on_machine) {
  const int number = rank_on_machine % count_of_gpus();
  check(cudaSetDevice(number), "taking a GPU");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "asking for a GPU's properties");
  name_ = std::string(properties.name) + " (cuda:" + std::to_string(number) + ")";
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  void* fault = nullptr;
  check(cudaHostAlloc(&fault, sizeof(Fault), cudaHostAllocMapped), "memory for faults");
  fault_ = new (fault) Fault();
  if (cublasLtCreate(&blas_) != CUBLAS_STATUS_SUCCESS) throw EnvironmentFailure("GPU: cuBLASLt could not be started");
  if (const auto status = cudnnCreate(&dnn_); status != CUDNN_STATUS_SUCCESS)
    throw EnvironmentFailure(std::string("GPU: cuDNN could not be started: ") + cudnnGetErrorString(status));
  cudnnSetStream(dnn_, stream_);
  check(cudaEventCreate(&base_), "making an event");
  forget_marks();
}

Gpu::~Gpu() {
  (void)cudaStreamSynchronize(stream_);
  runs_.clear();
  for (auto event : events_) (void)cudaEventDestroy(event);
  (void)cudaEventDestroy(base_);
  (void)cudnnDestroy(dnn_);
  (void)cublasLtDestroy(blas_);
  (void)cudaFreeHost(fault_);
  (void)cudaStreamDestroy(stream_);
}

std::byte* Gpu::allocate(std::int64_t bytes) {
  void* p = nullptr;
  const auto status = cudaMalloc(&p, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) out_of_memory(bytes);
  check(status, "taking memory");
  check(cudaMemsetAsync(p, 0, static_cast<std::size_t>(bytes), stream_), "clearing memory");
  return static_cast<std::byte*>(p);
}

std::byte* Gpu::allocate_on_host(std::int64_t bytes) {
  void* p = nullptr;
  check(cudaHostAlloc(&p, static_cast<std::size_t>(bytes), cudaHostAllocPortable), "taking memory of the host");
  std::fill_n(static_cast<std::byte*>(p), bytes, std::byte{0});
  return static_cast<std::byte*>(p);
}

void Gpu::release(std::byte* p, std::int64_t) noexcept { (void)cudaFree(p); }
void Gpu::release_on_host(std::byte* p, std::int64_t) noexcept { (void)cudaFreeHost(p); }

void Gpu::upload(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying to the GPU");
  cudaPointerAttributes attributes{};
  // What is pageable has been read when the call returns; what is pinned is read later.
  if (cudaPointerGetAttributes(&attributes, from) == cudaSuccess && attributes.type == cudaMemoryTypeHost)
    check(cudaStreamSynchronize(stream_), "copying to the GPU");
}

void Gpu::download(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying from the GPU");
  check(cudaStreamSynchronize(stream_), "copying from the GPU");
}

void Gpu::copy(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying on the GPU");
}

void Gpu::clear(void* to, std::size_t bytes) { check(cudaMemsetAsync(to, 0, bytes, stream_), "clearing memory"); }

void Gpu::wait() {
  check(cudaStreamSynchronize(stream_), "computing");
  if (fault_->raised == 0) return;
  const Fault found = *fault_;
  *fault_ = {};
  check_fault(found);
}

std::int64_t Gpu::mark() {
  if (marks_ == events_.size()) check(cudaEventCreate(&events_.emplace_back()), "making an event");
  check(cudaEventRecord(events_[marks_], stream_), "marking a moment");
  return static_cast<std::int64_t>(marks_++);
}

double Gpu::time_of(std::int64_t mark) {
  auto* event = events_[static_cast<std::size_t>(mark)];
  check(cudaEventSynchronize(event), "computing");
  return seconds_of(event);
}

double Gpu::seconds_of(cudaEvent_t event) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, base_, event), "reading a time");
  return base_seconds_ + static_cast<double>(milliseconds) * 1e-3;
}

std::unique_ptr<DeviceCollectives> Gpu::collectives(int ranks_on_machine, const Meeting& meeting) {
  return ranks_on_machine > count_of_gpus() ? nullptr : make_nccl_collectives(*this, meeting);
}

void Gpu::forget_marks() {
  marks_ = 0;
  check(cudaStreamSynchronize(stream_), "computing");
  check(cudaEventRecord(base_, stream_), "marking a moment");
  check(cudaEventSynchronize(base_), "marking a moment");
  base_seconds_ = now_seconds();
}

void Gpu::reorder(const ReorderTask& task, const graph::TensorType& type) {
  if (task.from_format == task.to_format || type.shape.size() < 3)
    return copy(task.to, task.from, static_cast<std::size_t>(graph::size_of(type).value()));
  reorder_image(stream(), task, type);
}

const Gpu::KnownRuns& Gpu::runs_of(const plan::BlockCopy& block) {
  const auto [at, fresh] = runs_.try_emplace(&block);
  auto& known = at->second;
  if (!fresh) return known;
  std::vector<Consecutive> runs;
  block.for_each_run([&](std::int64_t from, std::int64_t to, std::int64_t count) {
    runs.push_back({from, to, count, known.elements});
    known.elements += count;
  });
  known.count = static_cast<std::int64_t>(runs.size());
  const std::size_t bytes = runs.size() * sizeof(Consecutive);
  known.on_device = std::make_unique<DeviceMemory>(*this, static_cast<std::int64_t>(bytes));
  upload(known.on_device->data(), runs.data(), bytes);
  return known;
}

void Gpu::copy_block(const plan::BlockCopy& block, std::size_t element_bytes, const void* from, void* to) {
  const auto& known = runs_of(block);
  copy_runs(stream(), {reinterpret_cast<const Consecutive*>(known.on_device->data()), known.count, known.elements}, element_bytes, from,
            to);
}

void Gpu::add_block(const plan::BlockCopy& block, const Addition& addition, const void* from, void* to) {
  const auto& known = runs_of(block);
  add_runs(stream(), {reinterpret_cast<const Consecutive*>(known.on_device->data()), known.count, known.elements}, addition, from, to);
}

bool Gpu::has_non_finite(DType type, const void* data, std::int64_t elements) {
  const DeviceMemory found(*this, sizeof(std::int32_t));
  find_non_finite(stream(), type, data, elements, reinterpret_cast<std::int32_t*>(found.data()));
  std::int32_t result = 0;
  download(&result, found.data(), sizeof result);
  return result != 0;
}

/// What is stored as it is goes straight; what is packed is packed by the host.
std::int64_t Gpu::copy_stash(const StashTypes& types, const void* from, void* to) {
  const auto bytes = [](const graph::TensorType& type) { return static_cast<std::size_t>(graph::size_of(type).value()); };
  if (types.from.dtype == types.to.dtype && types.from.shape == types.to.shape) return copy(to, from, bytes(types.from)), 0;
  std::vector<std::byte> before(bytes(types.from)), after(bytes(types.to));
  download(before.data(), from, before.size());
  const auto dense = exec::copy_stash(types, before.data(), after.data());
  upload(to, after.data(), after.size());
  return dense;
}

}  // namespace rehearsal::exec::cuda
