#include "formats/onnx/folded.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "base/random.hpp"
#include "formats/onnx/quoted_list.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::formats {
namespace {

constexpr std::string_view kFoldedKey = "pkg.onnxscript.optimizer.folded_from";
constexpr std::string_view kFoldedKindKey = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr std::int64_t kLargestUnfolded = std::int64_t{1} << 24;
constexpr std::uint64_t kCompared = 512;  ///< elements of two tensors that should be equal

/// Functions of torch by whose names results are called.
enum class Step : std::uint8_t {
  View,     ///< every value moves, none is repeated or left out
  Pick,     ///< values are repeated or left out
  Look,     ///< rows are looked up by indices
  Indices,  ///< makes indices and sizes
};
struct Movement {
  std::string_view function;
  Step step;
};
constexpr Movement kMovements[] = {
    {"unsqueeze", Step::View},  {"squeeze", Step::View},      {"view", Step::View},     {"reshape", Step::View},
    {"permute", Step::View},    {"transpose", Step::View},    {"t", Step::View},        {"clone", Step::View},
    {"contiguous", Step::View}, {"alias", Step::View},        {"flatten", Step::View},  {"unflatten", Step::View},
    {"swapaxes", Step::View},   {"movedim", Step::View},      {"numpy_t", Step::View},  {"lift_fresh_copy", Step::View},
    {"expand", Step::Pick},     {"expand_as", Step::Pick},    {"slice", Step::Pick},    {"select", Step::Pick},
    {"repeat", Step::Pick},     {"embedding", Step::Look},    {"index", Step::Look},    {"index_select", Step::Look},
    {"gather", Step::Look},     {"arange", Step::Indices},    {"zeros", Step::Indices}, {"zeros_like", Step::Indices},
    {"ones", Step::Indices},    {"ones_like", Step::Indices}, {"full", Step::Indices},  {"add", Step::Indices},
    {"sub", Step::Indices},     {"cumsum", Step::Indices},    {"sub_1", Step::Indices}, {"_to_copy", Step::Indices}};

std::string without_count(const std::string& name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  return end != std::string::npos && end + 1 < name.size() && name[end] == '_' ? name.substr(0, end) : name;
}

const Movement* movement_of(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kMovements), std::end(kMovements), [&](const Movement& m) { return m.function == without_count(name); });
  return found == std::end(kMovements) ? nullptr : found;
}

/// Arithmetic between a parameter and the rows that are looked up in it is taken for that of the indices.
Origin origin_of(const std::string& result, std::vector<std::string> steps, const Declarations& declarations) {
  Origin origin;
  const Movement* last = movement_of(result);
  const bool looked_up = last && last->step == Step::Look;
  steps.push_back(result);
  for (const std::string& name : steps) {
    const bool named = !name.starts_with("val_") && !declarations.buffers().contains(name);
    if (declarations.parameters().contains(name)) {
      origin.parameters.push_back(name);
    } else if (named) {
      const Movement* movement = movement_of(name);
      const bool arithmetic = movement && (movement->function == "add" || movement->function == "sub" || movement->function == "cumsum");
      origin.moved_only = origin.moved_only && movement && (looked_up || !arithmetic);
      origin.one_to_one = origin.one_to_one && movement && movement->step == Step::View;
    }
  }
  return origin;
}

/// Bytes of a stored tensor as rows: [count of rows, elements of a row].
struct FoldedRows {
  std::vector<std::int64_t> shape;  ///< of the tensor, the row's axis last
  std::vector<std::byte> bytes;
  std::size_t row_bytes = 0;

  [[nodiscard]] std::size_t count() const { return bytes.size() / row_bytes; }
  [[nodiscard]] std::string_view row(std::size_t i) const {
    return {reinterpret_cast<const char*>(bytes.data() + i * row_bytes), row_bytes};
  }
};

/// The elements in the order of `axes`.
std::vector<std::byte> permuted(const std::vector<std::byte>& bytes, const std::vector<std::int64_t>& shape,
                                const std::vector<std::size_t>& axes, std::size_t element) {
  const auto strides = graph::row_major_strides(shape);
  std::vector<std::byte> result(bytes.size());
  std::vector<std::int64_t> at(shape.size(), 0);
  for (std::size_t i = 0; i * element < bytes.size(); ++i) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < axes.size(); ++d) from += at[d] * strides[axes[d]];
    std::memcpy(result.data() + i * element, bytes.data() + static_cast<std::size_t>(from) * element, element);
    for (std::size_t d = axes.size(); d-- > 0;) {
      if (++at[d] < shape[axes[d]]) break;
      at[d] = 0;
    }
  }
  return result;
}

/// All axes in order, `k` as the last.
std::vector<std::size_t> with_last(std::size_t rank, std::size_t k) {
  std::vector<std::size_t> axes;
  for (std::size_t d = 0; d < rank; ++d) {
    if (d != k) axes.push_back(d);
  }
  axes.push_back(k);
  return axes;
}

/// The distinct rows in the order of their first appearance, and which of them every row is.
struct Table {
  std::vector<std::byte> rows;
  std::vector<std::int64_t> index;
  std::size_t count = 0;
};

Table table_of(const FoldedRows& rows) {
  Table table;
  std::map<std::string_view, std::int64_t> seen;
  for (std::size_t i = 0; i < rows.count(); ++i) {
    const auto [known, is_new] = seen.try_emplace(rows.row(i), static_cast<std::int64_t>(table.count));
    table.index.push_back(known->second);
    if (!is_new) continue;
    ++table.count;
    const std::byte* from = rows.bytes.data() + i * rows.row_bytes;
    table.rows.insert(table.rows.end(), from, from + rows.row_bytes);
  }
  return table;
}

class Unfolding {
 public:
  explicit Unfolding(ModelFile& file) : file_(file), graph_(*file.model.mutable_graph()), declarations_(file.model) {}

  std::vector<ExporterDamage> run() && {
    const auto folded = folded_tensors(graph_, declarations_);
    const bool traced = file_.model.producer_name() == "pytorch" && declarations_.parameters().empty();
    if (folded.empty() && !traced) return {};
    const int before = graph_.node_size();
    for (int i = 0; i < graph_.initializer_size(); ++i) stored_[graph_.initializer(i).name()] = i;
    for (const auto& node : graph_.node()) {
      const bool recurrent = node.op_type() == "LSTM" || node.op_type() == "GRU" || node.op_type() == "RNN";
      for (int i = 1; recurrent && i < std::min(node.input_size(), 4); ++i) packed_[node.input(i)] = i;
    }
    for (const auto& [name, operand] : packed_) {
      if (traced && name.starts_with("onnx::") && stored_.contains(name)) unpack(name, operand, {parts_of(name, operand), true, false});
    }
    for (const auto& [name, origin] : folded) {
      if (const auto packed = packed_.find(name); packed != packed_.end() && stored_.contains(name) && origin.moved_only)
        unpack(name, packed->second, origin);
      if (origin.parameters.size() != 1 || !origin.moved_only || !stored_.contains(name)) continue;
      const std::string& parameter = origin.parameters[0];
      if (const auto holder = holders_.find(parameter); holder != holders_.end())
        derive(name, holder->second);
      else if (stored_.contains(parameter))
        derive(name, parameter);
      else
        adopt(name, parameter, origin.one_to_one);
    }
    for (const int i : replaced_) graph_.mutable_initializer()->DeleteSubrange(i, 1);
    // What makes the exporter's tensors out of parameters stands before all that reads them, as ONNX demands of a file that is written.
    auto& nodes = *graph_.mutable_node();
    std::rotate(nodes.pointer_begin(), nodes.pointer_begin() + before, nodes.pointer_end());
    return std::move(undone_);
  }

 private:
  struct Values {
    graph::TensorType type;
    std::vector<std::byte> bytes;
  };

  /// nullopt: too many, or not in the file.
  [[nodiscard]] std::optional<Values> values_of(const std::string& name) const {
    const StoredTensor stored = this->stored(name);
    const std::int64_t count = graph::element_count(stored.type.shape);
    if (!is_float(stored.type.dtype) || !stored.contents.known() || !stored.missing.empty() || count < 1 || count > kLargestUnfolded)
      return {};
    Values values{stored.type, std::vector<std::byte>(static_cast<std::size_t>(count) * size_of(stored.type.dtype))};
    graph::read_into(stored.contents, stored.type.shape, stored.type.dtype, {}, values.bytes.data());
    return values;
  }

  /// `name` is what became of a parameter that the file stores as `holder`.
  void derive(const std::string& name, const std::string& holder) {
    const StoredTensor copy = stored(name), original = stored(holder);
    const auto& shape = original.type.shape;
    if (copy.type.dtype != original.type.dtype || graph::element_count(copy.type.shape) != graph::element_count(shape)) return;
    const bool transposed = shape.size() == 2 && copy.type.shape == graph::Shape{shape[1], shape[0]} && agree(copy, original, true);
    const bool same = !transposed && copy.type.shape == shape && agree(copy, original, false);
    if (transposed) set_axes(*add_node("Transpose", {holder}, name), {1, 0});
    if (same) add_node("Reshape", {holder, add_indices(name + "/shape", shape, {static_cast<std::int64_t>(shape.size())})}, name);
    if (!transposed && !same) return;
    replace(name);
    undone_.push_back(
        {name, "unfolded", "it is '" + holder + (transposed ? "', transposed: one weight again" : "': one weight again"), true, holder});
  }

  /// Whether two tensors that stand for one parameter have equal values, at places drawn over all of them: their sources are noted.
  [[nodiscard]] static bool agree(const StoredTensor& copy, const StoredTensor& original, bool transposed) {
    const auto& shape = original.type.shape;
    const auto count = static_cast<std::uint64_t>(graph::element_count(shape));
    for (std::uint64_t i = 0; i < std::min(count, kCompared); ++i) {
      const std::uint64_t at = count <= kCompared ? i : random_bits(0, 0, i) % count;
      const std::uint64_t columns = shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back());
      const std::uint64_t there = transposed ? at % columns * (count / columns) + at / columns : at;
      if (element(original, at) != element(copy, there)) return false;
    }
    return count > 0;
  }

  [[nodiscard]] static std::optional<std::vector<double>> element(const StoredTensor& stored, std::uint64_t at) {
    const std::uint64_t size = size_of(stored.type.dtype);
    graph::Contents one = stored.contents;
    if (const auto* region = std::get_if<graph::FileRegion>(&one.source)) {
      one.source = graph::FileRegion{region->path, region->offset + at * size, size};
      return graph::read_reals(one, {}, 0, 0);
    }
    const auto* inside = std::get_if<graph::InlineBytes>(&one.source);
    if (!inside) return {};
    const auto* from = inside->data->data() + at * size;
    one.source = graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(from, from + size)};
    return graph::read_reals(one, {}, 0, 0);
  }

  [[nodiscard]] StoredTensor stored(const std::string& name) const {
    return stored_tensor(file_, graph_.initializer(stored_.at(name)), name);
  }

  /// Weights of a recurrent layer, which one tensor holds: W and R [directions, rows, columns], B [directions, 2 rows], the bias of the
  /// input before that of the state. Optimizers that look at norms see each by itself again.
  void unpack(const std::string& name, int operand, const Origin& origin) {
    std::vector<std::string> names = origin.parameters;
    const auto is_taken = [&](const std::string& parameter) { return stored_.contains(parameter) || holders_.contains(parameter); };
    const auto values = values_of(name);
    const std::size_t rank = operand == 3 ? 2 : 3;
    if (names.size() < 2 || std::any_of(names.begin(), names.end(), is_taken) || !values || values->type.shape.size() != rank) return;
    const auto directions = static_cast<std::size_t>(values->type.shape[0]), parts = names.size() / directions;
    if (names.size() != directions * parts || parts != (operand == 3 ? 2U : 1U)) return;
    if (values->type.shape[1] % static_cast<std::int64_t>(parts) != 0) return;
    // "bias_ih_l0" comes before "bias_hh_l0", "..._l0" before "..._l0_reverse"
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return std::pair(a.ends_with("_reverse"), b) < std::pair(b.ends_with("_reverse"), a);
    });
    graph::Shape shape = values->type.shape;
    shape[0] = 1;
    shape[1] /= static_cast<std::int64_t>(parts);
    const std::size_t bytes = values->bytes.size() / names.size();
    std::vector<std::string> rows;
    for (std::size_t d = 0; d < directions; ++d) {
      const std::vector<std::string> own(names.begin() + static_cast<std::ptrdiff_t>(d * parts),
                                         names.begin() + static_cast<std::ptrdiff_t>((d + 1) * parts));
      for (std::size_t p = 0; p < parts; ++p) add_part(own[p], name, shape, {values->bytes.data() + (d * parts + p) * bytes, bytes});
      rows.push_back(parts == 1 ? own[0] : name + "/" + std::to_string(d));
      if (parts > 1) set_axis(*add_node("Concat", own, rows.back()), 1);
    }
    set_axis(*add_node("Concat", rows, name), 0);
    replace(name);
  }

  /// TorchScript's exporter keeps no names of what it packs.
  [[nodiscard]] std::vector<std::string> parts_of(const std::string& name, int operand) const {
    const auto& dims = graph_.initializer(stored_.at(name)).dims();
    std::vector<std::string> names;
    for (const std::string& part : operand == 3 ? std::vector<std::string>{"/bias_ih", "/bias_hh"} : std::vector<std::string>{"/weight"}) {
      names.push_back(name + part);
      if (!dims.empty() && dims[0] == 2) names.push_back(name + part + "_reverse");
    }
    return names;
  }

  void add_part(const std::string& parameter, const std::string& of, const graph::Shape& shape, std::span<const std::byte> bytes) {
    onnx::TensorProto part;
    part.set_name(parameter);
    part.set_data_type(graph_.initializer(stored_.at(of)).data_type());
    for (const std::int64_t d : shape) part.add_dims(d);
    part.set_raw_data(bytes.data(), bytes.size());
    *graph_.add_initializer() = std::move(part);
    holders_[parameter] = parameter;
    declare_parameter(graph_, parameter);
    undone_.push_back({parameter, "unfolded", "the file has it with others in '" + of + "'; it is a weight of its own again", true, of});
  }

  static void set_axis(onnx::NodeProto& node, std::int64_t axis) {
    auto& attribute = *node.add_attribute();
    attribute.set_name("axis");
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(axis);
  }

  /// `name` becomes the parameter that was folded into it.
  void adopt(const std::string& name, const std::string& parameter, bool one_to_one) {
    holders_[parameter] = name;
    if (holds_weights(name)) return;  // a matrix that was transposed or packed: it is trained without more
    if (one_to_one) return declare_parameter(graph_, name);
    const auto values = values_of(name);
    if (!values || values->type.shape.empty()) return;
    const auto& bytes = values->bytes;
    const std::size_t element = size_of(values->type.dtype);
    const bool uniform = std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(element), bytes.end(), bytes.begin());
    if (uniform && !is_repeated(values->type.shape)) return;
    const FoldedRows rows = rows_of(*values, uniform);
    const Table table = table_of(rows);
    if (table.count == rows.count()) return declare_parameter(graph_, name);
    store(name, parameter, *values, rows, table);
    holders_[parameter] = parameter;
  }

  [[nodiscard]] bool holds_weights(const std::string& name) {
    if (usage_.empty()) usage_ = usage_of(in_topological_order(graph_.node(), file_.path), {});
    const auto found = usage_.find(name);
    return found != usage_.end() && (found->second & (kWeightUse | kMatrixUse)) != 0;
  }

  /// Whether zeros can only be one token for all samples: [batch, 1, features].
  [[nodiscard]] bool is_repeated(const graph::Shape& shape) const {
    if (shape.size() < 2 || graph::element_count(shape) != shape.front() * shape.back()) return false;
    return std::any_of(graph_.input().begin(), graph_.input().end(), [&](const onnx::ValueInfoProto& input) {
      const auto& type = input.type().tensor_type();
      return !stored_.contains(input.name()) && type.shape().dim_size() > 0 && type.shape().dim(0).dim_value() == shape.front();
    });
  }

  /// Along the axis that leaves the fewest values, which `row_axis_` keeps; where all are equal, along the last.
  FoldedRows rows_of(const Values& values, bool uniform) {
    const auto& shape = values.type.shape;
    std::size_t fewest = 0;
    FoldedRows best;
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (best.row_bytes > 0 && (uniform || shape[k] < 2)) continue;
      const auto axes = with_last(shape.size(), k);
      FoldedRows rows{{},
                      permuted(values.bytes, shape, axes, size_of(values.type.dtype)),
                      static_cast<std::size_t>(shape[k]) * size_of(values.type.dtype)};
      for (const std::size_t d : axes) rows.shape.push_back(shape[d]);
      const std::size_t left = table_of(rows).count * rows.row_bytes;
      if (best.row_bytes > 0 && left >= fewest) continue;
      fewest = left;
      best = std::move(rows);
      row_axis_ = k;
    }
    return best;
  }

  /// The distinct rows under the parameter's name, and nodes that make the folded tensor of them.
  void store(const std::string& name, const std::string& parameter, const Values& values, const FoldedRows& rows, const Table& table) {
    onnx::TensorProto weights;
    weights.set_name(parameter);
    weights.set_data_type(graph_.initializer(stored_.at(name)).data_type());
    const std::size_t rank = values.type.shape.size();
    const std::string moved = name + "/rows";
    graph::Shape kept(rows.shape.begin(), rows.shape.end() - 1);
    if (table.count == 1) {  // one row for all: a token that was repeated
      for (std::size_t d = 0; d + 1 < rank; ++d) weights.add_dims(1);
      weights.add_dims(rows.shape.back());
      add_node("Expand", {parameter, add_indices(name + "/shape", rows.shape, {static_cast<std::int64_t>(rank)})}, moved);
    } else {
      weights.add_dims(static_cast<std::int64_t>(table.count));
      weights.add_dims(rows.shape.back());
      add_node("Gather", {parameter, add_indices(name + "/rows_read", table.index, kept)}, moved);
    }
    weights.set_raw_data(table.rows.data(), table.rows.size());
    *graph_.add_initializer() = std::move(weights);
    const auto axes = with_last(rank, row_axis_);
    std::vector<std::int64_t> back(rank);
    for (std::size_t d = 0; d < rank; ++d) back[axes[d]] = static_cast<std::int64_t>(d);
    set_axes(*add_node("Transpose", {moved}, name), back);
    declare_parameter(graph_, parameter);
    replace(name);
    undone_.push_back({parameter, "unfolded",
                       "the file has " + std::to_string(rows.count()) + " rows '" + name + "' in its place; " +
                           std::to_string(table.count) + (table.count == 1 ? " is" : " are") + " trained again",
                       true, name});
  }

  onnx::NodeProto* add_node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    auto* node = graph_.add_node();
    node->set_op_type(op);
    node->set_name(output + "/" + op);
    for (const auto& input : inputs) node->add_input(input);
    node->add_output(output);
    return node;
  }

  static void set_axes(onnx::NodeProto& node, const std::vector<std::int64_t>& axes) {
    auto& attribute = *node.add_attribute();
    attribute.set_name("perm");
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t axis : axes) attribute.add_ints(axis);
  }

  std::string add_indices(const std::string& name, const std::vector<std::int64_t>& values, const std::vector<std::int64_t>& shape) {
    auto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(7);  // int64
    for (const std::int64_t d : shape) tensor.add_dims(d);
    tensor.set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
    return name;
  }

  void replace(const std::string& name) { replaced_.insert(stored_.at(name)); }

  ModelFile& file_;
  onnx::GraphProto& graph_;
  Declarations declarations_;
  std::map<std::string, int> stored_;
  std::map<std::string, std::string> holders_;  ///< the tensor that stands for a parameter that was folded
  std::set<int, std::greater<>> replaced_;      ///< initializers that nodes now make, the last one first
  UsageByName usage_;
  std::map<std::string, int> packed_;  ///< tensors that recurrent layers read as weights, and as which operand
  std::size_t row_axis_ = 0;
  std::vector<ExporterDamage> undone_;
};

void declare_kind(onnx::GraphProto& graph, const std::string& name, std::string_view kind) {
  auto& info = *graph.add_value_info();
  info.set_name(name);
  auto& entry = *info.add_metadata_props();
  entry.set_key(std::string(kFoldedKindKey));
  entry.set_value(std::string(kind));
}

}  // namespace

std::map<std::string, Origin> folded_tensors(const onnx::GraphProto& graph, const Declarations& declarations) {
  std::map<std::string, Origin> folded;
  if (declarations.parameters().empty()) return folded;
  std::set<std::string> stored;
  for (const auto& tensor : graph.initializer()) stored.insert(tensor.name());
  for (const auto& info : graph.value_info()) {
    if (!stored.contains(info.name())) continue;
    for (const auto& entry : info.metadata_props()) {
      if (entry.key() != kFoldedKey) continue;
      Origin origin = origin_of(info.name(), quoted_entries(entry.value()), declarations);
      if (!origin.parameters.empty()) folded[info.name()] = std::move(origin);
    }
  }
  return folded;
}

void declare_parameter(onnx::GraphProto& graph, const std::string& name) { declare_kind(graph, name, "PARAMETER"); }
void declare_constant(onnx::GraphProto& graph, const std::string& name) { declare_kind(graph, name, "CONSTANT_TENSOR"); }

bool was_optimized(const onnx::GraphProto& graph) {
  const bool notes = std::any_of(graph.value_info().begin(), graph.value_info().end(), [](const onnx::ValueInfoProto& info) {
    const auto& entries = info.metadata_props();
    return std::any_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.key() == kFoldedKey; });
  });
  return notes || std::none_of(graph.node().begin(), graph.node().end(), [](const auto& node) { return node.op_type() == "Constant"; });
}

std::vector<ExporterDamage> unfold(ModelFile& file) { return Unfolding(file).run(); }

}  // namespace rehearsal::formats
