#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/host/block_moves.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/host/non_finite.hpp"
#include "exec/host/stashes.hpp"
#include "exec/kernels/compute_device.hpp"

namespace rehearsal::exec {
namespace {

class Host final : public ComputeDevice {
 public:
  [[nodiscard]] std::string name() const override { return "host"; }
  [[nodiscard]] bool is_host() const override { return true; }

  [[nodiscard]] std::byte* allocate(std::int64_t bytes) override {
    void* p = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      throw EnvironmentFailure("memory: " + to_text(Bytes(static_cast<double>(bytes))) +
                               " for the arena of this rank could not be had; use a plan that needs less");
    madvise(p, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    return static_cast<std::byte*>(p);
  }
  [[nodiscard]] std::byte* allocate_on_host(std::int64_t bytes) override { return allocate(bytes); }
  void release(std::byte* p, std::int64_t bytes) noexcept override { munmap(p, static_cast<std::size_t>(bytes)); }
  void release_on_host(std::byte* p, std::int64_t bytes) noexcept override { release(p, bytes); }

  void upload(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void clear(void* to, std::size_t bytes) override { std::memset(to, 0, bytes); }
  void wait() override {}
  [[nodiscard]] std::int64_t mark() override {
    marks_.push_back(now_seconds());
    return static_cast<std::int64_t>(marks_.size()) - 1;
  }
  [[nodiscard]] double time_of(std::int64_t mark) override { return marks_[static_cast<std::size_t>(mark)]; }
  void forget_marks() override { marks_.clear(); }

  void reorder(const ReorderTask& task, const graph::TensorType& type) override { exec::reorder(task, type, omp_get_max_threads()); }
  void copy_block(const plan::BlockCopy& copy, std::size_t element_bytes, const void* from, void* to) override {
    exec::run(copy, element_bytes, from, to);
  }
  void add_block(const plan::BlockCopy& copy, const Addition& addition, const void* from, void* to) override {
    exec::add(copy, addition, from, to);
  }
  [[nodiscard]] bool has_non_finite(DType type, const void* data, std::int64_t elements) override {
    return count_non_finite(type, data, elements).any();
  }
  std::int64_t copy_stash(const StashTypes& types, const void* from, void* to) override { return exec::copy_stash(types, from, to); }

 private:
  std::vector<double> marks_;
};

}  // namespace

std::unique_ptr<ComputeDevice> make_host() { return std::make_unique<Host>(); }

DeviceMemory::DeviceMemory(ComputeDevice& device, std::int64_t bytes, Where where)
    : device_(device),
      bytes_(std::max<std::int64_t>(bytes, 1)),
      where_(where),
      data_(where == Where::Device ? device.allocate(bytes_) : device.allocate_on_host(bytes_)) {}

DeviceMemory::~DeviceMemory() { where_ == Where::Device ? device_.release(data_, bytes_) : device_.release_on_host(data_, bytes_); }

}  // namespace rehearsal::exec
