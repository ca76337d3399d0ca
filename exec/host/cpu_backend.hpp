#pragma once
// The CPU as a plan::Backend: what lowering asks, and the kernels that the executor then runs, from the same tables.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/kernels/compute_backend.hpp"
#include "exec/kernels/kernel_tables.hpp"

namespace rehearsal::exec {

/// Before the name of the f32 kernel that does the work of a node of 16 bits, on copies.
inline constexpr std::string_view kWidened = "widened:";

/// Kernel tables in order of preference. "reference": the portable ones only; "onednn": oneDNN and our own fast ones first. A second oneDNN
/// stands beside them: its kernels run what choose() or make() name them for.
class CpuBackend final : public ComputeBackend {
 public:
  /// Throws BadInput for a name other than "auto", "onednn", "reference".
  explicit CpuBackend(const std::string& wanted);
  /// "reference" has nothing to choose from.
  void choose(const costmodel::KernelChoices& choices, const std::string& where) override;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] plan::KernelOffer offer(const plan::LocalNode& node) const override;
  [[nodiscard]] std::vector<plan::KernelOffer> offers(const plan::LocalNode& node) const override;
  [[nodiscard]] bool reorders(const graph::TensorType& type, plan::Format from, plan::Format to) const override;
  [[nodiscard]] bool fuses_attention() const override { return true; }
  [[nodiscard]] bool plans_arrivals() const override { return true; }
  [[nodiscard]] std::shared_ptr<Kernel> make(const std::string& implementation, const KernelRequest& request) const override;
  void forget() const override;
  [[nodiscard]] ComputeDevice& device() const override { return *device_; }
  /// Of a fast kernel of this name, or of one on widened operands.
  [[nodiscard]] std::optional<plan::KernelOffer> offer_by(std::string_view implementation, const plan::LocalNode& node) const override;

 private:
  using Ask = std::function<std::optional<plan::KernelOffer>(const plan::LocalNode&)>;

  [[nodiscard]] plan::KernelOffer usual_offer(const plan::LocalNode& node) const;
  [[nodiscard]] std::optional<plan::KernelOffer> chosen_offer(const plan::LocalNode& node) const;
  [[nodiscard]] std::optional<plan::KernelOffer> direct_offer(const plan::LocalNode& node, std::string& reasons) const;
  /// As `ask` says of the node with wide operands.
  [[nodiscard]] static std::optional<plan::KernelOffer> widened_offer(const plan::LocalNode& node, const Ask& ask);
  /// What offer_by() says, with the reason where there is none.
  [[nodiscard]] std::optional<plan::KernelOffer> offer_or_reason(std::string_view implementation, const plan::LocalNode& node,
                                                                 std::string& reason) const;
  /// Of all fast kernels those that can be chosen for such nodes, in order of preference by the rules.
  [[nodiscard]] std::vector<const KernelRow*> rows_to_choose_from(std::string_view op) const;
  /// Where the fast kernel of this name stands.
  [[nodiscard]] const KernelTables& tables_with(std::string_view implementation) const;
  [[nodiscard]] const KernelTables& second() const;
  [[nodiscard]] bool knows(std::string_view op, std::string_view implementation) const;

  std::string name_;
  std::unique_ptr<ComputeDevice> device_ = make_host();
  KernelTables fast_, reference_;               ///< in order of preference; the first has none where only the portable ones are wanted
  mutable std::optional<KernelTables> second_;  ///< of second_onednn.hpp, from when somebody asks
  std::map<std::string, costmodel::KernelChoice> choices_;  ///< by key of the node
  mutable std::map<std::string, plan::KernelOffer> known_;  ///< by signature: making a kernel is costly
};

void reorder(const ReorderTask&, const graph::TensorType&, int threads);

/// sum += addend, element by element (floating-point types); the first one replaces what is there.
void accumulate(void* sum, const void* addend, std::int64_t count, const Addition&, int threads);

}  // namespace rehearsal::exec
