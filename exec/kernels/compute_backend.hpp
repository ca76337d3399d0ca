#pragma once
// A kind of device that this process can compute on: what lowering asks (plan::Backend), and the kernels and the memory that the executor
// then uses. Adding one: a folder in exec/kernels/ and a row in exec/backends.cpp.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "exec/kernels/compute_device.hpp"
#include "exec/kernels/kernel.hpp"
#include "plan/backend.hpp"

namespace rehearsal::exec {

class ComputeBackend : public plan::Backend {
 public:
  /// The kernel that was offered under this name; one that is shareable may be in use elsewhere. Throws Refusal naming operator and reason
  /// when it does not accept.
  [[nodiscard]] virtual std::shared_ptr<Kernel> make(const std::string& implementation, const KernelRequest& request) const = 0;
  /// Nodes that are among `choices` run as these say, where that kernel takes them: of backends with kernels to choose from. Throws
  /// BadInput with `where` for a kernel that this build does not know, though it has the same libraries.
  virtual void choose(const costmodel::KernelChoices& choices, const std::string& where) {
    static_cast<void>(choices);
    static_cast<void>(where);
  }
  /// Drops what offer() and make() remember, for when every kernel is made: they would answer the same again, more slowly.
  virtual void forget() const {}
  /// Where its kernels run.
  [[nodiscard]] virtual ComputeDevice& device() const = 0;
  /// How the kernel of this name, which offers() has beside the first, would run it; nothing where it does not.
  [[nodiscard]] virtual std::optional<plan::KernelOffer> offer_by(std::string_view implementation, const plan::LocalNode& node) const {
    auto usual = offer(node);
    return usual.implementation == implementation ? std::optional(std::move(usual)) : std::nullopt;
  }
};

}  // namespace rehearsal::exec
