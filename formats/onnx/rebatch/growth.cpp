// Operands that the file has one row of per sample, and how they come to have as many as are wanted: written out where they are read,
// or, when something random or not known lies between, where they come from.

#include <algorithm>
#include <array>

#include "formats/onnx/rebatch/batch_rules.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

constexpr int kGrowthDeepest = 64;
constexpr std::int64_t kLargestCompared = std::int64_t{1} << 26;  ///< elements of a stored constant that are looked at

std::int64_t product(const Shape& shape, std::size_t from, std::size_t to) {
  return graph::element_count({shape.begin() + static_cast<std::ptrdiff_t>(from), shape.begin() + static_cast<std::ptrdiff_t>(to)});
}

/// The axis of `from` whose elements are those of axis `axis` of `to`: as many, after as many others. nullopt when there is none.
std::optional<std::size_t> same_axis(const Shape& from, const Shape& to, std::size_t axis) {
  const std::int64_t before = product(to, 0, axis);
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[axis] && product(from, 0, d) == before) return d;
  }
  return std::nullopt;
}

/// Index along an axis with its varying factors set to 0.
std::int64_t first_row(std::int64_t along, const SizeFactors& size) {
  std::int64_t result = 0, unit = 1;
  for (auto f = size.rbegin(); f != size.rend(); ++f) {
    if (f->kind == Factor::Kind::Constant) result += along % f->written * unit;
    along /= f->written;
    unit *= f->written;
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> RebatchRule::written_integers(std::size_t i) const {
  if (i >= visit_.values.size() || !visit_.values[i]) return {};
  return {visit_.values[i]->begin(), visit_.values[i]->end()};
}

std::vector<std::int64_t> RebatchRule::integers(std::size_t i) const {
  const graph::Value* value = has(i) ? node_.builder().value(node_.input(i)) : nullptr;
  std::vector<std::int64_t> all;
  if (value && value->count() > kMostListed) return all;
  for (std::int64_t k = 0; value && k < value->count(); ++k) all.push_back(value->integer(k));
  return all;
}

std::int64_t RebatchRule::summands(std::size_t i) const {
  if (!has(i)) return 0;
  const auto found = trace_.summed_.find(visit_.operands[i]);
  return found == trace_.summed_.end() ? 0 : found->second;
}

void RebatchRule::refuse(const std::string& why) const { throw NotRebatchable{visit_.described + ": " + why}; }

bool RebatchRule::is_stored_weight(std::size_t i) const {
  return has(i) && node_.builder()[visit_.operands[i]].role == graph::TensorRole::Parameter;
}

void RebatchRule::add(std::size_t at, OperandPatch patch) {
  auto& patches = trace_.patches_[at];
  for (const OperandPatch& other : patches) {
    if (other.operand == patch.operand && other.index == patch.index && other.kind == patch.kind)
      throw NotRebatchable{trace_.visits_[at].described + ": operand " + std::to_string(patch.operand) +
                           " would have to follow the batch in two ways"};
  }
  patches.push_back(std::move(patch));
}

void RebatchRule::set_sizes(std::size_t i, const std::vector<std::optional<SizeFactors>>& sizes) {
  bool any = false;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (!sizes[k]) continue;
    if (!has(i) || !node_.builder().value(node_.input(i))) refuse("the sizes that it is given are not known");
    const OperandPatch patch{OperandPatch::Kind::Sizes, i, k, *sizes[k]};
    add(at_, patch);
    trace_.apply(patch, node_);
    any = true;
  }
  if (any) visit_.operands[i] = node_.input(i);
}

void RebatchRule::follow(std::size_t i, std::size_t axis, const SizeFactors& size) {
  if (axis >= written(i).size() || varies(law(i)[axis])) return;
  if (written(i)[axis] != written_size(size))
    refuse("operand " + std::to_string(i) + " has " + std::to_string(written(i)[axis]) + " rows, and not one for each of the " +
           std::to_string(written_size(size)) + " that go with the batch");
  if (!require(at_, i, axis, size, 0)) throw BatchTrace::Again{};
  trace_.apply(trace_.patches_[at_].back(), node_);
  visit_.operands[i] = node_.input(i);
}

bool RebatchRule::follow_in_steps(std::size_t i, std::size_t axis, const SizeFactors& size, std::int64_t step) {
  const graph::Value* value = node_.builder().value(visit_.operands.at(i));
  const std::int64_t rows = written(i).at(axis), inner = product(written(i), axis + 1, written(i).size());
  if (!value || rows != written_size(size) || rows < 2) return false;
  for (std::int64_t k = 0; k < value->count(); ++k) {
    const std::int64_t row = k / inner % rows, first = value->integer(k - row * inner);
    if (first < 0 || first >= step || value->integer(k) != first + row * step) return false;
  }
  add(at_, {OperandPatch::Kind::Step, i, axis, size, step});
  trace_.apply(trace_.patches_[at_].back(), node_);
  visit_.operands[i] = node_.input(i);
  return true;
}

bool RebatchRule::require(std::size_t at, std::size_t operand, std::size_t axis, const SizeFactors& size, int depth) {
  const Visit& visit = trace_.visits_[at];
  const TensorId t = visit.operands.at(operand);
  const std::string where = visit.described + ": operand " + std::to_string(operand);
  if (depth > kGrowthDeepest || t == TensorId::None) throw NotRebatchable{where + " cannot be made to follow the batch"};
  const graph::Tensor& tensor = node_.builder()[t];
  const bool random = trace_.random_.contains(t), one = written_size(size) == 1;
  if (node_.builder().value(t) || (one && !random) ||
      (tensor.producer == graph::NodeId::None && tensor.role == graph::TensorRole::Constant)) {
    add(at, {one ? OperandPatch::Kind::Repeat : kind_of_rows(t, axis, size, where), operand, axis, size});
    return at == at_ && depth == 0;
  }
  if (tensor.producer == graph::NodeId::None)
    throw NotRebatchable{where + ", '" + tensor.name + "', has one row per sample of the file and is trained"};
  const auto origin = trace_.origins_.find(t);
  if (origin == trace_.origins_.end()) throw NotRebatchable{where + " comes from where it cannot be followed"};
  trace_back(origin->second, axis, size, depth + 1);
  return false;
}

/// Whether the slices along an axis are equal, or count themselves.
OperandPatch::Kind RebatchRule::kind_of_rows(TensorId t, std::size_t axis, const SizeFactors& size, const std::string& where) const {
  const graph::Tensor& tensor = node_.builder()[t];
  if (!tensor.contents.known() || graph::element_count(tensor.type.shape) > kLargestCompared)
    throw NotRebatchable{where + ", '" + tensor.name + "', has one row per sample of the file, and its values are not known"};
  const auto values = graph::read_reals(tensor.contents, tensor.type.shape, 0, 0);
  const std::int64_t inner = product(tensor.type.shape, axis + 1, tensor.type.shape.size()), along = tensor.type.shape[axis];
  bool equal = true, counting = is_integer(tensor.type.dtype) && size.size() == 1;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
    const std::int64_t row = i / inner % along;
    const double value = values[static_cast<std::size_t>(i)],
                 first = values[static_cast<std::size_t>(i + (first_row(row, size) - row) * inner)];
    equal = equal && value == first;
    counting = counting && (value == first || (first == 0 && value == static_cast<double>(row)));
  }
  if (equal) return OperandPatch::Kind::Repeat;
  if (counting) return OperandPatch::Kind::Count;
  throw NotRebatchable{where + ", '" + tensor.name +
                       "', holds other numbers for every sample of the file, so nobody knows those of others"};
}

void RebatchRule::broadcast(const std::vector<std::size_t>& operands, std::size_t apart) {
  std::size_t rank = 0;
  for (const std::size_t i : operands) rank = std::max(rank, law(i).size());
  for (std::size_t back = apart + 1; back <= rank; ++back) {
    const auto reaches = [&](std::size_t i) { return law(i).size() >= back; };
    const auto leads = [&](std::size_t i) { return reaches(i) && varies(law(i)[law(i).size() - back]); };
    const auto leader = std::find_if(operands.begin(), operands.end(), leads);
    if (leader == operands.end()) continue;
    const SizeFactors size = law(*leader)[law(*leader).size() - back];
    for (const std::size_t i : operands) {
      if (!reaches(i) || leads(i)) continue;
      const std::size_t axis = law(i).size() - back;
      const bool drawn_once = written(i)[axis] == 1 && written_size(size) == 1 && is_random(i);
      if (drawn_once) assume("operand " + std::to_string(i) + ", drawn at random, is drawn for every sample");
      if (written(i)[axis] != 1 || drawn_once) follow(i, axis, size);
    }
  }
}

void RebatchRule::align(const std::vector<std::size_t>& operands, std::optional<std::size_t> free) {
  for (std::size_t axis = 0; axis < written(operands.at(0)).size(); ++axis) {
    const auto leads = [&](std::size_t i) { return axis < law(i).size() && varies(law(i)[axis]); };
    const auto leader = std::find_if(operands.begin(), operands.end(), leads);
    if (axis == free || leader == operands.end()) continue;
    const SizeFactors size = law(*leader)[axis];
    for (const std::size_t i : operands) {
      if (!leads(i)) follow(i, axis, size);
    }
  }
}

// Upstream

void RebatchRule::trace_back(std::size_t at, std::size_t axis, const SizeFactors& size, int depth) {
  const Visit& visit = trace_.visits_[at];
  const auto stuck = [&]() -> NotRebatchable {
    return {visit.described + ": its result has one row per sample of the file, and this operator cannot be made to give others"};
  };
  const Shape& result = visit.outputs.at(0).at(0).shape;
  const auto input = [&](std::size_t i) -> const Shape& {
    if (i >= visit.inputs.size() || !visit.inputs[i]) throw stuck();
    return visit.inputs[i]->shape;
  };
  const auto listed = [&](std::size_t operand, std::size_t index) { add(at, {OperandPatch::Kind::Sizes, operand, index, size}); };
  if (visit.op == "ConstantOfShape") return listed(0, axis);
  if (visit.op == "Expand" || visit.op == "Tile") {
    const auto target = static_cast<std::size_t>(product(input(1), 0, input(1).size()));
    if (axis + target < result.size()) throw stuck();
    listed(1, axis + target - result.size());
    const bool longer = axis + input(0).size() >= result.size() && input(0)[axis + input(0).size() - result.size()] != 1;
    if (longer && visit.op == "Tile") throw stuck();
    if (longer) (void)require(at, 0, axis + input(0).size() - result.size(), size, depth);
    return;
  }
  for (const auto& [operand, from] : sources(visit, axis, written_size(size))) (void)require(at, operand, from, size, depth);
  if (sources(visit, axis, written_size(size)).empty()) throw stuck();
}

/// The axes of operands that axis `axis` of result 0 comes from.
std::vector<std::pair<std::size_t, std::size_t>> RebatchRule::sources(const Visit& visit, std::size_t axis, std::int64_t size) const {
  const Shape& result = visit.outputs.at(0).at(0).shape;
  const Shape first = visit.inputs.empty() || !visit.inputs[0] ? Shape{} : visit.inputs[0]->shape;
  std::vector<std::pair<std::size_t, std::size_t>> all;
  const std::string& op = visit.op;
  if (op == "Transpose") {
    const auto perm = visit.attributes.find("perm");
    const auto last = static_cast<std::int64_t>(result.size()) - 1;
    const std::int64_t from = perm == visit.attributes.end() ? last - static_cast<std::int64_t>(axis) : perm->second.at(axis);
    return {{0, static_cast<std::size_t>(graph::normalize_axis(from, result.size()))}};
  }
  if (op == "Reshape" || op == "Unsqueeze" || op == "Squeeze" || op == "Flatten") {
    const auto from = size == 1 ? std::nullopt : same_axis(first, result, axis);
    if (from) all.emplace_back(0, *from);
    return all;
  }
  if (op == "Gather") {
    const auto along = static_cast<std::size_t>(graph::normalize_axis(visit.attribute("axis", 0), first.size()));
    const std::size_t indices = visit.inputs[1]->shape.size();
    if (axis >= along && axis < along + indices) return {{1, axis - along}};
    return {{0, axis < along ? axis : axis - indices + 1}};
  }
  if (op == "GatherND") return axis + 1 < visit.inputs[1]->shape.size() ? decltype(all){{1, axis}} : all;
  const bool joins = op == "Concat", picks = op == "Slice";
  if (joins && static_cast<std::size_t>(graph::normalize_axis(visit.attribute("axis", 1), result.size())) == axis) return all;
  const RuleRow* row = find_rule(op);
  const bool broadcasts = row && (row->apply == find_rule("Add")->apply || row->apply == find_rule("Mul")->apply);
  if (!joins && !picks && !broadcasts && first != result) return all;
  for (std::size_t i = 0; i < (joins || broadcasts ? visit.inputs.size() : 1); ++i) {
    if (!visit.inputs[i] || visit.inputs[i]->shape.size() + axis < result.size()) continue;
    const std::size_t from = visit.inputs[i]->shape.size() + axis - result.size();
    const bool part = visit.inputs[i]->shape[from] == size && (size != 1 || !broadcasts || trace_.random_.contains(visit.operands[i]));
    if (part) all.emplace_back(i, from);
  }
  return all;
}

// Patches

void BatchTrace::apply(const OperandPatch& patch, NodeImport& node) {
  const TensorId t = node.input(patch.operand);
  if (patch.kind == OperandPatch::Kind::Sizes) {
    graph::Value value = node.known(patch.operand, "sizes");
    (value.integral() ? value.integers.at(patch.index) : value.integers.emplace_back()) = size_now(patch.size);
    return node.replace_input(patch.operand, node.constant(std::move(value)));
  }
  const Shape shape = node.builder().type(t).shape;
  Shape apart(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(patch.index)), wide = apart, joined = shape, starts, ends, axes;
  for (const Factor& f : patch.size) {
    const bool grows = f.kind != Factor::Kind::Constant;
    if (grows && f.written != 1) {
      axes.push_back(static_cast<std::int64_t>(apart.size()));
      starts.push_back(0);
      ends.push_back(1);
    }
    apart.push_back(f.written);
    wide.push_back(size_now({f}));
  }
  for (Shape* s : {&apart, &wide}) s->insert(s->end(), shape.begin() + static_cast<std::ptrdiff_t>(patch.index) + 1, shape.end());
  joined[patch.index] = size_now(patch.size);
  TensorId grown = node.reshape(t, apart);
  if (!axes.empty()) grown = node.emit("Slice", {grown}, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
  grown = node.reshape(node.emit("Expand", {grown}, {{"shape", wide}}), joined);
  if (patch.kind == OperandPatch::Kind::Count || patch.kind == OperandPatch::Kind::Step) grown = counted(t, grown, patch, node);
  if (pass_ == Pass::Wanted) grown_[t] = node.builder().type(grown);
  if (pass_ == Pass::Probe) {
    SizeLaw law = law_of(t, node.builder());
    law[patch.index] = patch.size;
    laws_[grown] = std::move(law);
  }
  node.replace_input(patch.operand, grown);
}

/// The rows of `grown`, equal to the first row of `t`, with elements that count rows in `t` counting on, or all rising by a step.
TensorId BatchTrace::counted(TensorId t, TensorId grown, const OperandPatch& patch, NodeImport& node) {
  const std::size_t axis = patch.index;
  const graph::Value before = node.known_tensor(t, "indices");
  graph::Value after = node.known_tensor(grown, "indices");
  const std::int64_t inner = product(before.type.shape, axis + 1, before.type.shape.size());
  const std::int64_t rows = before.type.shape[axis], rows_now = after.type.shape[axis];
  for (std::int64_t i = 0; i < after.count(); ++i) {
    const std::int64_t row = i / inner % rows_now, second = i / inner / rows_now * rows * inner + inner + i % inner;
    auto& value = after.integers[static_cast<std::size_t>(i)];
    if (patch.kind == OperandPatch::Kind::Step)
      value += row * patch.step;
    else if (value == 0 && before.integers[static_cast<std::size_t>(second)] == 1)
      value = row;
  }
  return node.constant(std::move(after));
}

void BatchTrace::follow_flags(const Visit& visit, const NodeImport& node) {
  constexpr std::array<std::string_view, 5> kDrawing = {"RandomUniformLike", "RandomNormalLike", "Bernoulli", "Dropout", "Multinomial"};
  constexpr std::array<std::string_view, 6> kSumming = {"ReduceSum", "MatMul", "Gemm", "Einsum", "ReduceSumSquare", "ReduceL1"};
  const auto is_in = [&](const auto& names) { return std::find(names.begin(), names.end(), visit.op) != names.end(); };
  bool random = is_in(kDrawing), over_batch = false;
  std::int64_t read = 0, sum = 0;
  for (const TensorId t : visit.operands) {
    if (t == TensorId::None) continue;
    random = random || random_.contains(t);
    if (const auto found = summed_.find(t); found != summed_.end()) sum = found->second;
    over_batch = over_batch || varies(law_of(t, node.builder()));
    read = std::max(read, graph::element_count(written_shape(law_of(t, node.builder()))));
  }
  for (std::size_t i = 0; i < visit.laws.size(); ++i) {
    const auto* t = std::get_if<TensorId>(&node.results()[i]);
    if (!t || visit.laws[i].empty() || varies(visit.laws[i][0])) continue;
    if (random) random_.insert(*t);
    const std::int64_t count = read / std::max<std::int64_t>(1, graph::element_count(written_shape(visit.laws[i][0])));
    if (over_batch && is_in(kSumming)) sum = count;
    if (over_batch && visit.op == "ReduceMean") sum = -count;
    if (sum != 0) summed_[*t] = sum;
  }
}

}  // namespace rehearsal::formats
