// Rows that pick elements by index.

#include <algorithm>
#include <charconv>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;

/// What the call of an embedding says about gradients, which the operator does not: a row that takes none, and their scaling.
graph::Attributes embedding_attributes(const NodeImport& n) {
  graph::Attributes attributes{{"axis", n.integer("axis", 0)}};
  if (!n.training() || !n.stands_for("aten.embedding.")) return attributes;
  const auto arguments = n.source_arguments();  // (weight, indices, padding_idx, scale_grad_by_freq, sparse)
  std::int64_t padding = -1;
  if (arguments.size() > 2) std::from_chars(arguments[2].data(), arguments[2].data() + arguments[2].size(), padding);
  if (padding >= 0) attributes.set("padding", padding);
  if (arguments.size() > 3 && arguments[3] == "True")
    n.warn("the model divides the gradient of a row by how often it is picked (scale_grad_by_freq), which is not done here");
  return attributes;
}

void gather(NodeImport& n) { n.set(0, n.emit("Gather", {n.input(0), n.input(1)}, embedding_attributes(n))); }
void gather_elements(NodeImport& n) { n.set(0, n.emit("GatherElements", {n.input(0), n.input(1)}, {{"axis", n.integer("axis", 0)}})); }

/// Batch dimensions are those that the indices do not mention: their coordinates are written in front of the others.
TensorId with_batch_coordinates(NodeImport& n, std::int64_t batch_dims) {
  const graph::Shape indices = n.shape(1);
  if (batch_dims < 0 || batch_dims >= static_cast<std::int64_t>(std::min(indices.size(), n.rank(0))))
    n.fail("batch_dims is " + std::to_string(batch_dims) + ", which operands of shapes " + graph::to_text(n.shape(0)) + " and " +
           graph::to_text(indices) + " do not have");
  graph::Shape column = indices;
  column.back() = 1;
  std::vector<TensorId> parts;
  for (std::int64_t d = 0; d < batch_dims; ++d) {
    const std::int64_t size = column[static_cast<std::size_t>(d)];
    graph::Shape along(column.size(), 1);
    along[static_cast<std::size_t>(d)] = size;
    const TensorId range =
        n.emit("Range", {},
               {{"start", std::int64_t{0}}, {"limit", size}, {"delta", std::int64_t{1}}, {"dtype", std::string(name(n.type(1).dtype))}});
    parts.push_back(n.emit("Expand", {n.reshape(range, along)}, {{"shape", column}}));
  }
  parts.push_back(n.input(1));
  return n.emit("Concat", std::move(parts), {{"axis", static_cast<std::int64_t>(column.size()) - 1}});
}

void gather_nd(NodeImport& n) {
  const std::int64_t batch_dims = n.integer("batch_dims", 0);
  n.set(0, n.emit("GatherND", {n.input(0), batch_dims == 0 ? n.input(1) : with_batch_coordinates(n, batch_dims)}));
}

std::string scatter_reduction(NodeImport& n) { return n.text("reduction", "none"); }

void scatter_nd(NodeImport& n) {
  n.set(0, n.emit("ScatterND", {n.input(0), n.input(1), n.input(2)}, {{"reduction", scatter_reduction(n)}}));
}

void scatter_elements(NodeImport& n) {
  n.set(0, n.emit("ScatterElements", {n.input(0), n.input(1), n.input(2)},
                  {{"axis", n.integer("axis", 0)}, {"reduction", scatter_reduction(n)}}));
}

void top_k(NodeImport& n) {
  const std::int64_t k = n.version() < 10 ? n.integer("k", 0) : n.known_integer(1, "how many");
  const auto results =
      n.emit_all("TopK", {n.input(0)},
                 {{"axis", n.integer("axis", -1)}, {"k", k}, {"largest", n.integer("largest", 1)}, {"sorted", n.integer("sorted", 1)}});
  for (std::size_t i = 0; i < n.output_count() && i < results.size(); ++i) n.set(i, results[i]);
}

/// on where the class index equals the label, off elsewhere; negative labels count from the end.
void one_hot(NodeImport& n) {
  const std::int64_t depth = n.known_integer(1, "the number of classes");
  const graph::Value values = n.known(2, "the two values");
  if (depth < 1 || values.count() != 2)
    n.fail("needs at least one class and two values; it has " + std::to_string(depth) + " and " + std::to_string(values.count()));
  const DType type = n.type(0).dtype;
  const std::int64_t axis = graph::normalize_axis(n.integer("axis", -1), n.rank(0) + 1);
  graph::Shape column = n.shape(0), classes(n.rank(0) + 1, 1);
  column.insert(column.begin() + axis, 1);
  classes[static_cast<std::size_t>(axis)] = depth;
  const TensorId range =
      n.emit("Range", {}, {{"start", std::int64_t{0}}, {"limit", depth}, {"delta", std::int64_t{1}}, {"dtype", std::string(name(type))}});
  TensorId labels = n.reshape(n.input(0), column);
  labels = n.emit(
      "Where", {n.emit("Less", {labels, n.scalar(0, type)}), n.emit("Add", {labels, n.scalar(static_cast<double>(depth), type)}), labels});
  const TensorId equal = n.emit("Equal", {labels, n.reshape(range, classes)});
  n.set(0, n.emit("Where", {equal, n.scalar(values.real(1), values.type.dtype), n.scalar(values.real(0), values.type.dtype)}));
}

constexpr ImportRow kGatherRows[] = {
    {kDefaultDomain, "Gather", 1, kNewest, gather},
    {kDefaultDomain, "GatherElements", 11, kNewest, gather_elements},
    {kDefaultDomain, "GatherND", 11, kNewest, gather_nd},
    {kDefaultDomain, "ScatterND", 11, kNewest, scatter_nd},
    {kDefaultDomain, "ScatterElements", 11, kNewest, scatter_elements},
    {kDefaultDomain, "Scatter", 9, 10, scatter_elements},
    {kDefaultDomain, "TopK", 1, kNewest, top_k},
    {kDefaultDomain, "OneHot", 9, kNewest, one_hot},
};

}  // namespace

std::span<const ImportRow> gather_rows() { return kGatherRows; }

}  // namespace rehearsal::formats
