#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/kernels/compute_device.hpp"

namespace rehearsal::exec {

/// Memory of the device as the host sees it: itself, or a copy.
class OnHost {
 public:
  OnHost(ComputeDevice& device, void* data, std::int64_t bytes) : device_(device), data_(static_cast<std::byte*>(data)) {
    if (!device_.is_host()) copy_.resize(static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] std::byte* data() { return device_.is_host() ? data_ : copy_.data(); }
  void fetch() {
    if (!device_.is_host()) device_.download(copy_.data(), data_, copy_.size());
  }
  void store() {
    if (!device_.is_host()) device_.upload(data_, copy_.data(), copy_.size());
  }

 private:
  ComputeDevice& device_;
  std::byte* data_;
  std::vector<std::byte> copy_;
};

}  // namespace rehearsal::exec
