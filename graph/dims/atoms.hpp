#pragma once
// Factors of tensor dimensions and their equality. A dimension is a list of atoms, outer to inner; an atom is a leaf, a product of
// atoms (after a Reshape took it apart), or a sum of segments (after a Concat or Split). Atoms found to be the same are united.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rehearsal::graph {

enum class AtomId : std::int32_t { None = -1 };

/// One dimension as a product of atoms, outer to inner; empty when the size is 1.
using Factors = std::vector<AtomId>;

/// All atoms of one graph. Functions that unite or split return false (nullopt) when the factors do not align: the caller then treats the
/// dimension as blocked there; what was united before stays united, which only makes later splits coarser, never wrong.
class Atoms {
 public:
  /// A new leaf; no factors at all for size 1.
  Factors fresh(std::int64_t size);
  /// A new sum whose segments are the given dimensions in order; the dimension itself when only one of them has elements.
  Factors join(const std::vector<Factors>& segments);

  [[nodiscard]] AtomId find(AtomId) const;
  /// The atom that stands for the same axis at every resolution (an image's rows before and after a strided convolution).
  [[nodiscard]] AtomId family(AtomId) const;
  [[nodiscard]] std::int64_t size(AtomId) const;
  [[nodiscard]] std::int64_t size(const Factors&) const;
  [[nodiscard]] bool is_sum(AtomId) const;
  [[nodiscard]] bool is_window(AtomId) const;                        ///< a sliding window runs along it
  [[nodiscard]] const std::vector<Factors>& segments(AtomId) const;  ///< of a sum
  /// The list with products replaced by their factors: leaves and sums only.
  [[nodiscard]] Factors leaves(const Factors&) const;
  /// Atoms by which one leaf of a dimension can be split: for a sum those that stand exactly once in every segment; then the leaf itself
  /// (one contiguous block).
  [[nodiscard]] std::vector<AtomId> splits_of(AtomId leaf) const;
  [[nodiscard]] std::size_t count() const { return atoms_.size(); }

  /// Makes two dimensions of equal size the same, splitting leaves where their factors differ.
  bool unify(const Factors&, const Factors&);
  /// The dimension taken apart into parts of the given sizes, outer to inner, splitting leaves where needed.
  std::optional<std::vector<Factors>> cut(const Factors&, std::span<const std::int64_t> sizes);
  /// The elements [low, high) of a dimension, whose outermost leaf becomes a sum.
  std::optional<Factors> segment(const Factors&, std::int64_t low, std::int64_t high);
  /// Puts two atoms into one family.
  void relate(AtomId, AtomId);
  void mark_window(AtomId);

 private:
  enum class Kind : std::uint8_t { Leaf, Product, Sum };
  struct Atom {
    std::int64_t size = 1;
    AtomId parent = AtomId::None, family = AtomId::None;
    Kind kind = Kind::Leaf;
    bool window = false;
    Factors factors;                ///< of a product
    std::vector<Factors> segments;  ///< of a sum
  };

  [[nodiscard]] Atom& at(AtomId a) { return atoms_[static_cast<std::size_t>(find(a))]; }
  [[nodiscard]] const Atom& at(AtomId a) const { return atoms_[static_cast<std::size_t>(find(a))]; }
  AtomId add(std::int64_t size);
  void append_leaves(AtomId, Factors& out) const;
  [[nodiscard]] std::vector<AtomId> inside(AtomId sum) const;
  [[nodiscard]] std::vector<Factors> flat_segments(AtomId sum) const;
  bool split(AtomId, std::int64_t outer);
  bool split_sum(AtomId, std::int64_t outer);
  bool cut_sum_at(AtomId sum, std::int64_t position);
  void make_sum(AtomId leaf, std::int64_t low, std::int64_t high);
  bool merge(AtomId, AtomId);
  bool merge_sums(AtomId, AtomId);
  void adopt(AtomId keep, AtomId gone);

  mutable std::vector<Atom> atoms_;  ///< mutable: find shortens paths
};

}  // namespace rehearsal::graph
