#pragma once
// What keys of a plan choose among, under the names that users write.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.hpp"

namespace rehearsal::plan {

/// How attention gets over a sequence that `cp` splits.
enum class AttentionForm : std::uint8_t { Gather, AllToAll, Ring };
/// Nodes that run as one kernel where the machine has it.
enum class Fusion : std::uint8_t { Attention, None };
/// What waits in the host's memory.
enum class Offload : std::uint8_t { None, Optimizer, Activations };
/// Of matrices that an optimizer multiplies gradients with: every replica decomposes all, or each some of them for the others.
enum class Decompositions : std::uint8_t { Everywhere, Spread };
/// What BatchNormalization takes its statistics of.
enum class BatchStatistics : std::uint8_t { Batch, Local, Sync };

enum class RecomputeRule : std::uint8_t {
  None,
  Selective,       ///< what costs little to make again; of frameworks: the attention core
  SelectiveOps,    ///< of frameworks: every second product and all element-wise operators
  Full,            ///< every block once more, or the first of them
  FullExceptLast,  ///< GPipe's: not for the last micro-batch
  Budget           ///< as little as lets a rank do with so many bytes
};
struct Recompute {
  RecomputeRule rule = RecomputeRule::None;
  std::int64_t budget = 0;  ///< bytes, of RecomputeRule::Budget
  int blocks = 0;           ///< of RecomputeRule::Full: of every part of a pipeline the first so many; 0: all
  friend auto operator<=>(const Recompute&, const Recompute&) = default;
};
/// A name, full:N with a number of blocks, or a quantity of bytes. Throws BadInput when it is none of them.
[[nodiscard]] Recompute parse_recompute(std::string_view text);
[[nodiscard]] std::string to_text(const Recompute&);

/// Of results between forward and backward pass (Gist), or of gradients on their way: in 16 bits, or by a row of plan/compressors.hpp.
enum class CompressionRule : std::uint8_t {
  None,
  Gist,
  GistSparse,
  GistF16,
  GistBF16,
  BF16,
  F16,
  Sign,
  TernGrad,
  Qsgd,
  RandomK,
  OneBit,
  TopK,
  RandomKMemory,
  PowerSgd,
  OneBitAdam,
  SparCml
};
struct Compression {
  /// What may be other than zero where the plan does not say. ReLUs behind a normalization leave a half, behind a sum of branches more.
  static constexpr double kUsualDensity = 0.75;
  CompressionRule rule = CompressionRule::None;
  double density = kUsualDensity;  ///< share of elements for which a sparse result has room
  double setting = 0;              ///< of a compressor of gradients that takes one: levels, or the share of elements that is sent
  friend bool operator==(const Compression&, const Compression&) = default;

  [[nodiscard]] bool sparse() const { return rule == CompressionRule::GistSparse; }
  /// In which gradients travel; nothing where they travel as they are.
  [[nodiscard]] std::optional<DType> type_on_the_way() const;
  /// Whether ranks exchange what a compressor leaves of their gradients.
  [[nodiscard]] bool of_sums() const { return rule > CompressionRule::F16; }
  /// Whether results wait for the backward pass in fewer bytes.
  [[nodiscard]] bool of_results() const { return rule != CompressionRule::None && rule < CompressionRule::BF16; }
};
/// A name, or one with its setting: gist-sparse:X, qsgd:X, topk:X. Throws BadInput when it is neither, or X is out of range.
[[nodiscard]] Compression parse_compression(std::string_view text);
[[nodiscard]] std::string to_text(const Compression&);

/// What replicas that train by themselves make of their weights when they meet.
enum class OuterRule : std::uint8_t {
  Average,   ///< the mean of all (local SGD)
  Nesterov,  ///< a step of SGD with Nesterov momentum along the mean way that they went since they last met (DiLoCo)
  Elastic,   ///< each moves towards a center, and the center towards each (EASGD)
  Gossip,    ///< the mean of the own weights and those of both neighbours on a ring (D-PSGD)
  Adasum,    ///< the ways that they went, pair by pair: added where they are orthogonal, averaged where they are equal
};
struct OuterStep {
  OuterRule rule = OuterRule::Average;
  double rate = 0, momentum = 0;  ///< of Nesterov
  double pull = 0;                ///< of Elastic: how far the center moves towards the mean of the replicas
  friend bool operator==(const OuterStep&, const OuterStep&) = default;
};
/// A name, or nesterov:RATE:MOMENTUM, elastic:PULL. Throws BadInput when it is none of these, or a number is out of range.
[[nodiscard]] OuterStep parse_outer_step(std::string_view text);
[[nodiscard]] std::string to_text(const OuterStep&);

/// Names of a choice, in the order of its values.
template <class Choice>
struct ChoiceNames;
template <>
struct ChoiceNames<AttentionForm> {
  static constexpr std::array<std::string_view, 3> kAll{"gather", "all-to-all", "ring"};
};
template <>
struct ChoiceNames<Fusion> {
  static constexpr std::array<std::string_view, 2> kAll{"attention", "none"};
};
template <>
struct ChoiceNames<Offload> {
  static constexpr std::array<std::string_view, 3> kAll{"none", "optimizer", "activations"};
};
template <>
struct ChoiceNames<Decompositions> {
  static constexpr std::array<std::string_view, 2> kAll{"everywhere", "spread"};
};
template <>
struct ChoiceNames<BatchStatistics> {
  static constexpr std::array<std::string_view, 3> kAll{"batch", "local", "sync"};
};
template <>
struct ChoiceNames<CompressionRule> {
  static constexpr std::array<std::string_view, 17> kAll{"none", "gist",           "gist-sparse", "gist-f16",  "gist-bf16", "bf16",
                                                         "f16",  "sign",           "terngrad",    "qsgd",      "randomk",   "1bit",
                                                         "topk", "randomk-memory", "powersgd",    "1bit-adam", "sparcml"};
};
template <>
struct ChoiceNames<OuterRule> {
  static constexpr std::array<std::string_view, 5> kAll{"average", "nesterov", "elastic", "gossip", "adasum"};
};
template <>
struct ChoiceNames<RecomputeRule> {  // a budget is written as bytes
  static constexpr std::array<std::string_view, 5> kAll{"none", "selective", "selective-op", "full", "full-except-last"};
};

template <class Choice>
requires requires { ChoiceNames<Choice>::kAll; }
[[nodiscard]] constexpr std::string_view name(Choice choice) { return ChoiceNames<Choice>::kAll[static_cast<std::size_t>(choice)]; }

/// The choice of that name, in whatever spelling. Throws BadInput with all names and the nearest.
template <class Choice>
[[nodiscard]] Choice choice_named(std::string_view text);

}  // namespace rehearsal::plan
