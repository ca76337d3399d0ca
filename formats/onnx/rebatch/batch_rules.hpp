#pragma once
// What each operator asks of its operands when the batch changes. To teach an operator: one row in batch_rules.cpp, or a name.

#include <string_view>

#include "formats/onnx/rebatch/batch_trace.hpp"

namespace rehearsal::formats {

/// One node of the probe, its operands already in the graph.
class RebatchRule {
 public:
  RebatchRule(BatchTrace& trace, std::size_t visit, NodeImport& node)
      : trace_(trace), at_(visit), visit_(trace.visits_[visit]), node_(node) {}

  [[nodiscard]] const Visit& visit() const { return visit_; }
  [[nodiscard]] NodeImport& node() { return node_; }
  [[nodiscard]] std::int64_t written_batch() const { return trace_.batches_.written; }
  [[nodiscard]] SizeFactors batch_size() const { return {{Factor::Kind::Batch, trace_.batches_.written, trace_.batches_.probe}}; }
  [[nodiscard]] bool has(std::size_t i) const { return i < visit_.operands.size() && visit_.operands[i] != graph::TensorId::None; }
  /// Only where has().
  [[nodiscard]] SizeLaw law(std::size_t i) const { return trace_.law_of(visit_.operands[i], node_.builder()); }
  [[nodiscard]] const graph::Shape& written(std::size_t i) const { return visit_.inputs[i]->shape; }
  [[nodiscard]] const graph::Shape& result() const { return visit_.outputs.at(0).at(0).shape; }
  /// Whole numbers of an operand: as written, and now. Empty when they are not known.
  [[nodiscard]] std::vector<std::int64_t> written_integers(std::size_t i) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::size_t i) const;
  /// The file computes the operand's values from sizes, and they follow the batch.
  [[nodiscard]] bool is_computed(std::size_t i) const { return written_integers(i) != integers(i); }
  [[nodiscard]] bool is_random(std::size_t i) const { return has(i) && trace_.random_.contains(visit_.operands[i]); }
  /// The number of summands when operand i is a sum (or mean) over the batch, else 0.
  [[nodiscard]] std::int64_t summands(std::size_t i) const;

  /// Operand i lists sizes: these. Elements may be left out (nullopt).
  void set_sizes(std::size_t i, const std::vector<std::optional<SizeFactors>>& sizes);
  /// Axis `axis` of operand i has to be as long as `size` says.
  void follow(std::size_t i, std::size_t axis, const SizeFactors& size);
  /// As follow(), for indices into rows of `step` elements each. Whether these are such indices.
  [[nodiscard]] bool follow_in_steps(std::size_t i, std::size_t axis, const SizeFactors& size, std::int64_t step);
  /// Operands are broadcast against each other, aligned at their last axes; `apart` last axes are not.
  void broadcast(const std::vector<std::size_t>& operands, std::size_t apart = 0);
  /// Axes with the same number are of the same size in all these operands, except `free`.
  void align(const std::vector<std::size_t>& operands, std::optional<std::size_t> free);
  /// The law of result 0.
  void set_law(SizeLaw law) { visit_.law = std::move(law); }
  [[nodiscard]] bool is_stored_weight(std::size_t i) const;
  /// What reads rows per sample gives rows per sample, unless its operator sums over them or looks at sizes only.
  void require_rows() const;
  void assume(const std::string& what) { trace_.assumptions_.push_back(visit_.described + ": " + what); }
  /// As assume(), where the other place may be tried when this one leads nowhere.
  void assume_place(const std::string& what) {
    assume(what);
    trace_.places_.push_back(at_);
  }
  [[nodiscard]] bool goes_behind() const { return trace_.behind_.contains(at_); }
  [[nodiscard]] static std::size_t position_of_batch(const SizeLaw& law) {
    std::size_t d = 0;
    while (d < law.size() && !varies(law[d])) ++d;
    return d + 1;
  }
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  /// Operand `operand` of visit `at`: makes its axis follow, there or further up. Returns whether it is a patch of that very operand.
  bool require(std::size_t at, std::size_t operand, std::size_t axis, const SizeFactors& size, int depth);
  void add(std::size_t at, OperandPatch patch);
  void trace_back(std::size_t at, std::size_t axis, const SizeFactors& size, int depth);
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> sources(const Visit& visit, std::size_t axis, std::int64_t size) const;
  OperandPatch::Kind kind_of_rows(graph::TensorId t, std::size_t axis, const SizeFactors& size, const std::string& where) const;

  BatchTrace& trace_;
  std::size_t at_;
  Visit& visit_;
  NodeImport& node_;
};

struct RuleRow {
  std::string_view op;
  void (*apply)(RebatchRule&);
};
[[nodiscard]] const RuleRow* find_rule(std::string_view op);

/// Applies the row of the node's operator, if it has one. Throws NotRebatchable, or BatchTrace::Again.
void apply_rule(BatchTrace& trace, std::size_t visit, NodeImport& node);
/// RebatchRule::require_rows() of a node whose results are there.
void require_result_rows(BatchTrace& trace, std::size_t visit, NodeImport& node);

}  // namespace rehearsal::formats
