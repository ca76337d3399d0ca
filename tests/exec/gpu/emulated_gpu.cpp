#include "tests/exec/gpu/emulated_gpu.hpp"

#include <sys/mman.h>

#include <utility>

namespace rehearsal::exec {

EmulatedGpu::Working::Working(EmulatedGpu& gpu) : gpu_(gpu) {
  if (gpu_.working_++ == 0) gpu_.protect(PROT_READ | PROT_WRITE);
}
EmulatedGpu::Working::~Working() {
  if (--gpu_.working_ == 0) gpu_.protect(PROT_NONE);
}

void EmulatedGpu::protect(int protection) {
  for (const auto& [data, bytes] : memory_) (void)mprotect(data, static_cast<std::size_t>(bytes), protection);
}

std::byte* EmulatedGpu::allocate(std::int64_t bytes) {
  auto* data = host_->allocate(bytes);
  memory_[data] = bytes;
  if (working_ == 0) (void)mprotect(data, static_cast<std::size_t>(bytes), PROT_NONE);
  return data;
}
std::byte* EmulatedGpu::allocate_on_host(std::int64_t bytes) { return host_->allocate(bytes); }
void EmulatedGpu::release(std::byte* data, std::int64_t bytes) noexcept {
  memory_.erase(data);
  host_->release(data, bytes);
}
void EmulatedGpu::release_on_host(std::byte* data, std::int64_t bytes) noexcept { host_->release(data, bytes); }

void EmulatedGpu::copy(void* to, const void* from, std::size_t bytes) {
  const Working working(*this);
  host_->copy(to, from, bytes);
}
void EmulatedGpu::clear(void* to, std::size_t bytes) {
  const Working working(*this);
  host_->clear(to, bytes);
}
void EmulatedGpu::wait() { check_fault(std::exchange(fault_, {})); }
void EmulatedGpu::reorder(const ReorderTask& task, const graph::TensorType& type) {
  const Working working(*this);
  host_->reorder(task, type);
}
void EmulatedGpu::copy_block(const plan::BlockCopy& block, std::size_t element_bytes, const void* from, void* to) {
  const Working working(*this);
  host_->copy_block(block, element_bytes, from, to);
}
void EmulatedGpu::add_block(const plan::BlockCopy& block, const Addition& addition, const void* from, void* to) {
  const Working working(*this);
  host_->add_block(block, addition, from, to);
}
bool EmulatedGpu::has_non_finite(DType type, const void* data, std::int64_t elements) {
  const Working working(*this);
  return host_->has_non_finite(type, data, elements);
}
std::int64_t EmulatedGpu::copy_stash(const StashTypes& types, const void* from, void* to) {
  const Working working(*this);
  return host_->copy_stash(types, from, to);
}

}  // namespace rehearsal::exec
