#pragma once
// What one kind of device can run. Lowering asks a Backend, so that the simulated Program is the executed one:
// layouts, reorders, fused groups and workspaces are decided here and nowhere else.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/kernel_choices.hpp"
#include "graph/op_schema.hpp"
#include "plan/format.hpp"

namespace rehearsal::plan {

struct LocalTypes {
  std::span<const std::optional<graph::TensorType>> inputs, outputs;
};

/// One node as it will run on one rank: local types, and the formats its operands have now.
struct LocalNode {
  const graph::OpSchema& schema;
  const graph::Attributes& attributes;
  std::span<const std::optional<graph::TensorType>> inputs, outputs;
  std::span<const Format> input_formats;  ///< as produced; the offer may ask for others
  int threads = 1;
  std::span<const LocalTypes> others = {};  ///< of micro-batches of other sizes: one implementation runs them all

  [[nodiscard]] graph::NodeView view() const { return {inputs, outputs, attributes}; }
};

/// How a backend would run a node.
struct KernelOffer {
  std::string implementation;          ///< printable: "onednn:convolution", "reference:any"
  std::vector<Format> input_formats;   ///< asked for; lowering inserts reorders where they differ
  std::vector<Format> output_formats;  ///< produced
  Bytes workspace;                     ///< scratch memory during the kernel, whatever the size of the micro-batch
  std::string engine;                  ///< which of a library's kernels, in its own words; empty where it says nothing
  std::string why;  ///< why others that stand before it do not run it: they refused, or are not expected to be quicker; empty: none does
  std::vector<costmodel::TimedKernel> timed = {};  ///< where it was chosen by time: what this and others took; empty: by rule
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Throws Refusal naming operator, types and reasons when no implementation accepts.
  [[nodiscard]] virtual KernelOffer offer(const LocalNode&) const = 0;
  /// That of offer(), and behind it those of all other implementations that would do and may be quicker, in the order of a rule.
  [[nodiscard]] virtual std::vector<KernelOffer> offers(const LocalNode& node) const { return {offer(node)}; }
  /// True when a reorder between the two formats exists for this type.
  [[nodiscard]] virtual bool reorders(const graph::TensorType&, Format from, Format to) const = 0;
  /// True when it has the kernels Attention and AttentionGrad (graph/ops/attention.hpp); lowering then writes them in place of their nodes.
  [[nodiscard]] virtual bool fuses_attention() const { return false; }
  /// True when sums between ranks are made in memory of the plan (plan/collectives/message_arrivals.hpp), not in a library's own.
  [[nodiscard]] virtual bool plans_arrivals() const { return false; }
};

/// For devices that are not here: every operator in plain layout, without workspace. Attention is fused where the constructor says so.
class TableBackend final : public Backend {
 public:
  /// `fuses_attention`: as our backend for such devices does.
  explicit TableBackend(bool fuses_attention = false) : fuses_attention_(fuses_attention) {}
  /// Of every kernel that it offers.
  static constexpr std::string_view kImplementation = "table";
  [[nodiscard]] std::string_view name() const override { return "table"; }
  [[nodiscard]] KernelOffer offer(const LocalNode&) const override;
  [[nodiscard]] bool reorders(const graph::TensorType&, Format, Format) const override { return true; }
  [[nodiscard]] bool fuses_attention() const override { return fuses_attention_; }

 private:
  bool fuses_attention_;
};

/// Asks another backend, which must outlive it, and tells what that says of every node.
class ListeningBackend final : public Backend {
 public:
  using Hear = std::function<void(const LocalNode&, const KernelOffer&)>;
  ListeningBackend(const Backend& backend, Hear hear) : backend_(backend), hear_(std::move(hear)) {}
  [[nodiscard]] std::string_view name() const override { return backend_.name(); }
  [[nodiscard]] KernelOffer offer(const LocalNode&) const override;
  [[nodiscard]] std::vector<KernelOffer> offers(const LocalNode& node) const override { return backend_.offers(node); }
  [[nodiscard]] bool reorders(const graph::TensorType& type, Format from, Format to) const override {
    return backend_.reorders(type, from, to);
  }
  [[nodiscard]] bool fuses_attention() const override { return backend_.fuses_attention(); }
  [[nodiscard]] bool plans_arrivals() const override { return backend_.plans_arrivals(); }

 private:
  const Backend& backend_;
  Hear hear_;
};

}  // namespace rehearsal::plan
