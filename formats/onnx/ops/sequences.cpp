// Sequences whose length and positions are known, which disappear.

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;

/// From the end where it is negative. `last`: the largest that may be given.
std::size_t position(NodeImport& n, std::size_t operand, std::size_t size, std::size_t last) {
  const std::int64_t at = n.known_integer(operand, "the position");
  const auto count = static_cast<std::int64_t>(size);
  if (at < -count || at > static_cast<std::int64_t>(last))
    n.fail("position " + std::to_string(at) + " lies outside a sequence of " + std::to_string(count));
  return static_cast<std::size_t>(at < 0 ? at + count : at);
}

void split_to_sequence(NodeImport& n) {
  const auto axis = static_cast<std::int64_t>(graph::normalize_axis(n.integer("axis", 0), n.rank(0)));
  const std::int64_t whole = n.shape(0)[static_cast<std::size_t>(axis)];
  std::vector<std::int64_t> sizes;
  const bool scalar = n.has(1) && n.rank(1) == 0;
  if (n.has(1) && !scalar) {
    sizes = n.known_integers(1, "the sizes");
  } else {
    const std::int64_t each = scalar ? n.known_integer(1, "the size") : 1;
    if (each < 1) n.fail("splits into parts of " + std::to_string(each) + ", each must have at least 1");
    if (whole / each > 1 << 16) n.fail("splits into more than 65536 parts");
    for (std::int64_t start = 0; start < whole; start += each) sizes.push_back(std::min(each, whole - start));
  }
  auto parts = n.emit_all("Split", {n.input(0)}, {{"axis", axis}, {"split", sizes}});
  if (!n.has(1) && n.integer("keepdims", 1) == 0) {
    for (TensorId& part : parts) {
      graph::Shape shape = n.builder().type(part).shape;
      shape.erase(shape.begin() + axis);
      part = n.reshape(part, shape);
    }
  }
  n.set_sequence(0, std::move(parts));
}

void sequence_at(NodeImport& n) {
  const auto& parts = n.sequence(0);
  if (parts.empty()) n.fail("an empty sequence has no tensor");
  n.set(0, parts[position(n, 1, parts.size(), parts.size() - 1)]);
}
void sequence_construct(NodeImport& n) { n.set_sequence(0, n.inputs()); }
void sequence_empty(NodeImport& n) { n.set_sequence(0, {}); }
void sequence_length(NodeImport& n) {
  n.set(0, n.constant(graph::Value::of_integers({static_cast<std::int64_t>(n.sequence(0).size())}, {})));
}

void sequence_insert(NodeImport& n) {
  auto parts = n.sequence(0);
  const std::size_t at = n.has(2) ? position(n, 2, parts.size(), parts.size()) : parts.size();
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), n.input(1));
  n.set_sequence(0, std::move(parts));
}

void sequence_erase(NodeImport& n) {
  auto parts = n.sequence(0);
  if (parts.empty()) n.fail("an empty sequence has nothing to remove");
  const std::size_t at = n.has(1) ? position(n, 1, parts.size(), parts.size() - 1) : parts.size() - 1;
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
  n.set_sequence(0, std::move(parts));
}

void concat_from_sequence(NodeImport& n) {
  auto parts = n.sequence(0);
  if (parts.empty()) n.fail("an empty sequence cannot be joined");
  const bool fresh = n.integer("new_axis", 0) != 0;
  const std::size_t rank = n.builder().type(parts[0]).shape.size() + (fresh ? 1 : 0);
  const auto axis = static_cast<std::int64_t>(graph::normalize_axis(n.integer("axis", 0), rank));
  for (TensorId& part : parts) {
    graph::Shape shape = n.builder().type(part).shape;
    if (!fresh) break;
    shape.insert(shape.begin() + axis, 1);
    part = n.reshape(part, shape);
  }
  n.set(0, n.emit("Concat", std::move(parts), {{"axis", axis}}));
}

constexpr ImportRow kSequencesRows[] = {
    {kDefaultDomain, "SplitToSequence", 11, kNewest, split_to_sequence},
    {kDefaultDomain, "SequenceAt", 11, kNewest, sequence_at},
    {kDefaultDomain, "SequenceConstruct", 11, kNewest, sequence_construct},
    {kDefaultDomain, "SequenceEmpty", 11, kNewest, sequence_empty},
    {kDefaultDomain, "SequenceLength", 11, kNewest, sequence_length},
    {kDefaultDomain, "SequenceInsert", 11, kNewest, sequence_insert},
    {kDefaultDomain, "SequenceErase", 11, kNewest, sequence_erase},
    {kDefaultDomain, "ConcatFromSequence", 11, kNewest, concat_from_sequence},
};

}  // namespace

std::span<const ImportRow> sequence_rows() { return kSequencesRows; }

}  // namespace rehearsal::formats
