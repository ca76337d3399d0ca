#include "formats/onnx/rebatch/batch_rules.hpp"

#include <algorithm>
#include <cmath>

#include "base/words.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;

std::vector<std::size_t> operands_from(const RebatchRule& r, std::size_t first) {
  std::vector<std::size_t> all;
  for (std::size_t i = first; i < r.visit().operands.size(); ++i) {
    if (r.has(i)) all.push_back(i);
  }
  return all;
}

std::size_t axis_of(const RebatchRule& r, std::size_t i, std::int64_t otherwise) {
  return static_cast<std::size_t>(graph::normalize_axis(r.visit().attribute("axis", otherwise), r.written(i).size()));
}

void elementwise(RebatchRule& r) { r.broadcast(operands_from(r, 0)); }

/// Mul and Div: a sum over the batch that is divided by a number written out would be wrong with another batch.
void scaled(RebatchRule& r) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const std::size_t other = 1 - i;
    if (!r.has(0) || !r.has(1) || r.summands(i) == 0 || !r.visit().values[other] || r.visit().values[other]->size() != 1) continue;
    const graph::Value* now = r.node().value(other);
    const double number = (*r.visit().values[other])[0];
    if (!now || now->real(0) != number || number == 0) continue;
    const double batch = static_cast<double>(r.written_batch()), count = static_cast<double>(std::abs(r.summands(i)));
    const double whole = std::abs(number) >= 1 ? std::abs(number) : 1 / std::abs(number), rounded = std::round(whole);
    const bool is_whole = std::abs(whole - rounded) < 1e-5 * whole && rounded > 1;
    const bool of_sum = r.summands(i) > 0 && is_whole && std::fmod(rounded, batch) == 0 && rounded <= count && batch > 1;
    const bool of_mean = (is_whole && (rounded == count || rounded == count - 1)) || std::abs(whole - count / (count - 1)) < 1e-7 * whole;
    if (of_sum || (of_mean && count > 1))
      r.refuse("it multiplies a sum over the batch with " + std::to_string(number) +
               ", which looks like the number of samples written out");
  }
  elementwise(r);
}

/// The shape that a Reshape gives as the file has it now.
Shape resolved(const Shape& from, Shape target, bool allow_zero) {
  std::int64_t known = 1, open = -1;
  for (std::size_t d = 0; d < target.size(); ++d) {
    if (target[d] == 0 && !allow_zero && d < from.size()) target[d] = from[d];
    if (target[d] == -1)
      open = static_cast<std::int64_t>(d);
    else
      known *= target[d];
  }
  if (open >= 0 && known > 0) target[static_cast<std::size_t>(open)] = graph::element_count(from) / known;
  return target;
}

void reshape(RebatchRule& r) {
  if (!r.has(0) || !varies(r.law(0))) return;
  const auto law = regrouped(r.law(0), r.result(), r.goes_behind());
  const bool computed = r.has(1) && r.is_computed(1);
  if (!law) {
    if (computed) return;
    r.refuse("it takes rows of different samples apart or together in a way that another batch does not allow: from " +
             graph::to_text(r.written(0)) + " to " + graph::to_text(r.result()));
  }
  r.set_law(law->law);
  if (!r.has(1)) {
    if (r.visit().attributes.contains("shape")) r.refuse("its shape is an attribute with the batch written out");
    return;
  }
  const Shape target = r.integers(1);
  const Shape now = resolved(probed_shape(r.law(0)), target, r.visit().attribute("allowzero", 0) != 0);
  if (now == probed_shape(law->law)) return;
  if (law->assumed && computed) return r.set_law(constant_law({}));
  if (law->assumed)
    r.assume_place("the batch stands in " + graph::to_text(r.result()) + " as the " + std::to_string(r.position_of_batch(law->law)) +
                   ". dimension");
  std::vector<std::optional<SizeFactors>> sizes;
  for (std::size_t d = 0; d < target.size(); ++d) {
    const bool open = target[d] == -1 || (target[d] == 0 && r.visit().attribute("allowzero", 0) == 0);
    const bool right = open ? now[d] == probed_size(law->law[d]) : target[d] == probed_size(law->law[d]);
    sizes.push_back(right ? std::nullopt : std::optional(law->law[d]));
  }
  r.set_sizes(1, sizes);
}

void flatten(RebatchRule& r) {
  const SizeLaw law = r.law(0);
  const auto rank = static_cast<std::int64_t>(law.size());
  std::int64_t axis = r.visit().attribute("axis", 1);
  if (axis < 0) axis += rank;
  SizeLaw flat(2);
  for (std::int64_t d = 0; d < rank; ++d) {
    SizeFactors& part = flat[d < axis ? 0 : 1];
    part.insert(part.end(), law[static_cast<std::size_t>(d)].begin(), law[static_cast<std::size_t>(d)].end());
  }
  r.set_law(std::move(flat));
}

std::vector<std::int64_t> axes_of(const RebatchRule& r) {
  const auto found = r.visit().attributes.find("axes");
  return found != r.visit().attributes.end() ? found->second : r.has(1) ? r.integers(1) : std::vector<std::int64_t>{};
}

void unsqueeze(RebatchRule& r) {
  SizeLaw law = r.law(0);
  std::vector<std::int64_t> axes = axes_of(r);
  const auto rank = static_cast<std::int64_t>(law.size() + axes.size());
  for (std::int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis > static_cast<std::int64_t>(law.size())) return;
    law.insert(law.begin() + axis, SizeFactors{});
  }
  r.set_law(std::move(law));
}

void squeeze(RebatchRule& r) {
  const SizeLaw law = r.law(0);
  const auto axes = axes_of(r);
  std::vector<bool> dropped(law.size(), false);
  for (const std::int64_t axis : axes) dropped[static_cast<std::size_t>(graph::normalize_axis(axis, law.size()))] = true;
  SizeLaw left;
  for (std::size_t d = 0; d < law.size(); ++d) {
    const bool drop = axes.empty() ? written_size(law[d]) == 1 : dropped[d];
    if (drop && varies(law[d])) r.refuse("it drops a dimension of size 1 that is the batch");
    if (!drop) left.push_back(law[d]);
  }
  r.set_law(std::move(left));
}

void transpose(RebatchRule& r) {
  const SizeLaw law = r.law(0);
  const auto perm = r.visit().attributes.find("perm");
  SizeLaw turned(law.size());
  for (std::size_t d = 0; d < law.size(); ++d) {
    const bool given = perm != r.visit().attributes.end() && d < perm->second.size();
    const auto from = given ? static_cast<std::size_t>(graph::normalize_axis(perm->second[d], law.size())) : law.size() - 1 - d;
    turned[d] = law[from];
  }
  r.set_law(std::move(turned));
}

void concat(RebatchRule& r) {
  const auto operands = operands_from(r, 0);
  if (operands.empty()) return;
  const std::size_t axis = axis_of(r, operands[0], 1);
  r.align(operands, axis);
  SizeLaw law = r.law(operands[0]);
  SizeFactors joined = law.at(axis);
  const bool equal = std::all_of(operands.begin(), operands.end(), [&](std::size_t i) {
    const SizeLaw other = r.law(i);
    return axis < other.size() && other[axis] == joined;
  });
  if (!equal || !varies(joined)) return;
  const SizeFactors parts = constant_size(static_cast<std::int64_t>(operands.size()));
  joined.insert(joined.begin(), parts.begin(), parts.end());
  law[axis] = joined;
  r.set_law(std::move(law));
}

void matmul(RebatchRule& r) {
  const SizeLaw a = r.law(0), b = r.law(1);
  if (a.empty() || b.empty()) return;
  const std::size_t k = b.size() >= 2 ? b.size() - 2 : 0;
  if (varies(a.back()) != varies(b[k])) r.refuse("it sums over samples with as many weights as the file has samples");
  if (a.size() > 2 || b.size() > 2) r.broadcast({0, 1}, 2);
}

void gemm(RebatchRule& r) {
  const SizeLaw a = r.law(0), b = r.law(1);
  if (a.size() != 2 || b.size() != 2) return;
  const SizeFactors& k_of_a = a[r.visit().attribute("transA", 0) != 0 ? 0 : 1];
  const SizeFactors& k_of_b = b[r.visit().attribute("transB", 0) != 0 ? 1 : 0];
  if (varies(k_of_a) != varies(k_of_b)) r.refuse("it sums over samples with as many weights as the file has samples");
  const SizeFactors& rows = a[r.visit().attribute("transA", 0) != 0 ? 1 : 0];
  if (r.has(2) && varies(rows) && r.written(2).size() == 2 && r.written(2)[0] != 1 && !varies(r.law(2)[0])) r.follow(2, 0, rows);
}

/// The file computes the target, and what is expanded has a row per sample already.
void follow_target(RebatchRule& r) {
  const Shape before = r.written_integers(1), now = r.integers(1), from = r.written(0);
  for (std::size_t back = 1; back <= std::min({before.size(), now.size(), from.size()}); ++back) {
    const std::int64_t written = before[before.size() - back], probed = now[now.size() - back];
    const std::size_t axis = from.size() - back;
    if (probed == written || from[axis] == 1 || varies(r.law(0)[axis]) || from[axis] != written) continue;
    if (written != r.written_batch()) r.refuse("it expands to a size that follows the batch in an unknown way");
    r.follow(0, axis, r.batch_size());
  }
}

void expand(RebatchRule& r) {
  follow_target(r);
  const SizeLaw from = r.law(0);
  const Shape target = r.integers(1);
  if (target.size() > r.result().size()) return;
  std::vector<std::optional<SizeFactors>> sizes(target.size());
  for (std::size_t back = 1; back <= std::min(from.size(), target.size()); ++back) {
    const SizeFactors& size = from[from.size() - back];
    const std::size_t at = target.size() - back;
    if (varies(size) && target[at] != 1 && target[at] != probed_size(size)) sizes[at] = size;
  }
  r.set_sizes(1, sizes);
}

/// Indices that count the samples: 0, 1, 2, ... as many as the file has.
bool counts(const std::vector<std::int64_t>& indices, std::int64_t size) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != static_cast<std::int64_t>(i)) return false;
  }
  return static_cast<std::int64_t>(indices.size()) == size;
}

void gather(RebatchRule& r) {
  const std::size_t axis = axis_of(r, 0, 0);
  const SizeFactors along = r.law(0).at(axis);
  if (!varies(along) || varies(r.law(1)) || r.is_computed(1)) return;
  if (counts(r.written_integers(1), written_size(along)) && r.written(1).size() == 1 && written_size(along) > 1)
    return r.follow(1, 0, along);
  const bool rows_first = along.front().kind == Factor::Kind::Batch;
  for (std::size_t d = 0; rows_first && d < r.written(1).size(); ++d) {
    if (r.follow_in_steps(1, d, {along.front()}, written_size({along.begin() + 1, along.end()}))) return;
  }
  r.refuse("it picks the same samples whatever the batch");
}

void along_axis(RebatchRule& r, std::int64_t otherwise) {
  const std::size_t axis = axis_of(r, 0, otherwise);
  const auto operands = operands_from(r, 0);
  r.align(operands, axis);
  if (varies(r.law(0).at(axis)) && !varies(r.law(1).at(axis)) && !varies(r.law(1)))
    r.refuse("it picks the same samples whatever the batch");
}

void gather_elements(RebatchRule& r) { along_axis(r, 0); }

/// Coordinates that are written out count the samples along one axis of the indices.
void coordinates(RebatchRule& r) {
  const SizeLaw data = r.law(0), indices = r.law(1);
  const auto shared = static_cast<std::size_t>(std::max<std::int64_t>(0, r.visit().attribute("batch_dims", 0)));
  for (std::size_t d = 0; d < shared && d < data.size() && d + 1 < indices.size(); ++d) {
    if (varies(data[d]) && !varies(indices[d])) r.follow(1, d, data[d]);
  }
  const auto mentioned = static_cast<std::size_t>(r.written(1).empty() ? 0 : r.written(1).back());
  for (std::size_t d = shared; d < shared + mentioned && d < data.size(); ++d) {
    if (!varies(data[d]) || varies(r.law(1)) || r.is_computed(1)) continue;
    const auto& shape = r.written(1);
    const auto rows = std::find(shape.begin(), shape.end() - 1, written_size(data[d]));
    if (rows == shape.end() - 1 || written_size(data[d]) == 1) r.refuse("it picks the same samples whatever the batch");
    r.follow(1, static_cast<std::size_t>(rows - shape.begin()), data[d]);
  }
}

void recurrent(RebatchRule& r) {
  const bool batch_first = r.visit().attribute("layout", 0) != 0;
  const SizeLaw x = r.law(0);
  if (x.size() != 3) return;
  const SizeFactors& batch = x[batch_first ? 0 : 1];
  if (!varies(batch)) return;
  for (const std::size_t i : {std::size_t{5}, std::size_t{6}}) {
    const std::size_t axis = batch_first ? 0 : 1;
    if (r.has(i) && !varies(r.law(i))) r.follow(i, axis, batch);
  }
  if (r.has(4) && !varies(r.law(4))) r.follow(4, 0, batch);
}

void resize(RebatchRule& r) {
  if (!r.has(3)) return;
  const SizeLaw x = r.law(0);
  const Shape sizes_now = r.integers(3);
  std::vector<std::optional<SizeFactors>> sizes(sizes_now.size());
  if (sizes.size() == x.size()) {
    for (std::size_t d = 0; d < x.size(); ++d) {
      if (varies(x[d]) && sizes_now[d] != probed_size(x[d])) sizes[d] = x[d];
    }
  }
  r.set_sizes(3, sizes);
}

struct Cut {
  std::vector<std::int64_t> starts, ends, axes, steps;
};

Cut cut_of(const RebatchRule& r, bool as_written) {
  const auto list = [&](const char* key, std::size_t i) {
    const auto found = r.visit().attributes.find(key);
    if (found != r.visit().attributes.end()) return found->second;
    return r.has(i) ? (as_written ? r.written_integers(i) : r.integers(i)) : std::vector<std::int64_t>{};
  };
  return {list("starts", 1), list("ends", 2), list("axes", 3), list("steps", 4)};
}

void slice(RebatchRule& r) {
  const SizeLaw x = r.law(0);
  const Cut cut = cut_of(r, true), now = cut_of(r, false);
  std::vector<std::optional<SizeFactors>> ends(cut.ends.size());
  for (std::size_t k = 0; k < cut.ends.size() && k < cut.starts.size(); ++k) {
    const auto axis =
        static_cast<std::size_t>(graph::normalize_axis(k < cut.axes.size() ? cut.axes[k] : static_cast<std::int64_t>(k), x.size()));
    if (!varies(x[axis]) || cut.starts[k] != now.starts[k] || cut.ends[k] != now.ends[k]) continue;
    const std::int64_t size = written_size(x[axis]), step = k < cut.steps.size() ? cut.steps[k] : 1;
    const bool from_start = cut.starts[k] == 0 || cut.starts[k] <= -size;
    if (!from_start || step != 1 || cut.ends[k] < size) r.refuse("it takes the same rows out of the batch whatever its size");
    if (cut.ends[k] == size) ends[k] = x[axis];
  }
  if (r.has(2)) r.set_sizes(2, ends);
}

void split(RebatchRule& r) {
  const std::size_t axis = axis_of(r, 0, 0);
  const SizeFactors along = r.law(0).at(axis);
  if (!varies(along) || (r.has(1) && r.is_computed(1))) return;
  const auto parts = static_cast<std::int64_t>(r.visit().outputs.size() > 1 ? r.visit().outputs.size() : r.visit().outputs.at(0).size());
  const bool whole = along.front().kind == Factor::Kind::Constant && along.front().written == parts && parts > 1;
  if (!whole) r.refuse("it splits the batch into " + std::to_string(parts) + " parts");
  const SizeFactors each(along.begin() + 1, along.end());
  if (r.has(1)) r.set_sizes(1, std::vector<std::optional<SizeFactors>>(r.written_integers(1).size(), each));
}

void tile(RebatchRule& r) {
  SizeLaw law = r.law(0);
  const auto repeats = r.integers(1);
  if (r.is_computed(1) || repeats.size() != law.size() || !varies(law)) return;
  for (std::size_t d = 0; d < law.size(); ++d) {
    const SizeFactors times = constant_size(repeats[d]);
    law[d].insert(law[d].begin(), times.begin(), times.end());
  }
  r.set_law(std::move(law));
}

/// Operands whose first axis, too, is the batch.
void rows_of_all(RebatchRule& r) {
  const SizeLaw x = r.law(0);
  if (x.empty() || !varies(x[0])) return;
  for (const std::size_t i : operands_from(r, 1)) {
    const bool row = !r.written(i).empty() && r.written(i)[0] == written_size(x[0]) && !varies(r.law(i));
    if (row && r.written(i)[0] > 1 && !r.is_stored_weight(i)) r.follow(i, 0, x[0]);
  }
}

/// Operators of the rule elementwise().
constexpr std::string_view kElementByElement =
    "Add Sub Pow Mod Max Min Sum Mean Where And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual PRelu BitwiseAnd BitwiseOr "
    "BitShift";

constexpr RuleRow kRules[] = {
    {"Mul", scaled},
    {"Div", scaled},
    {"Reshape", reshape},
    {"Flatten", flatten},
    {"Unsqueeze", unsqueeze},
    {"Squeeze", squeeze},
    {"Transpose", transpose},
    {"Concat", concat},
    {"MatMul", matmul},
    {"Gemm", gemm},
    {"Expand", expand},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"ScatterElements", gather_elements},
    {"Scatter", gather_elements},
    {"GatherND", coordinates},
    {"ScatterND", coordinates},
    {"LSTM", recurrent},
    {"GRU", recurrent},
    {"RNN", recurrent},
    {"Resize", resize},
    {"Slice", slice},
    {"Split", split},
    {"SplitToSequence", split},
    {"Tile", tile},
    {"Attention", rows_of_all},
    {"RotaryEmbedding", rows_of_all},
    {"GridSample", rows_of_all},
    {"SoftmaxCrossEntropyLoss", rows_of_all},
    {"NegativeLogLikelihoodLoss", rows_of_all},
    {"ReverseSequence", rows_of_all},
};

/// Results of these may have no row per sample although operands do.
constexpr std::string_view kWithoutRows =
    "Shape Size ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare "
    "ArgMax ArgMin MatMul Gemm Einsum SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss BatchNormalization Loop Scan If Dropout "
    "MaxUnpool SequenceAt SequenceLength LSTM GRU RNN";

}  // namespace

const RuleRow* find_rule(std::string_view op) {
  static constexpr RuleRow kElementwise{{}, elementwise};
  if (has_word(kElementByElement, op)) return &kElementwise;
  const auto* row = std::find_if(std::begin(kRules), std::end(kRules), [&](const RuleRow& rule) { return rule.op == op; });
  return row == std::end(kRules) ? nullptr : row;
}

void apply_rule(BatchTrace& trace, std::size_t visit, NodeImport& node) {
  RebatchRule rule(trace, visit, node);
  const bool whole = !rule.visit().outputs.empty() && !rule.visit().outputs[0].empty() && rule.has(0);
  const RuleRow* row = find_rule(rule.visit().op);
  if (row && whole) row->apply(rule);
}

void RebatchRule::require_rows() const {
  if (has_word(kWithoutRows, visit_.op)) return;
  const auto end = visit_.op == "CastLike" ? visit_.operands.begin() + 1 : visit_.operands.end();
  const bool reads = std::any_of(visit_.operands.begin(), end, [&](graph::TensorId t) {
    return t != graph::TensorId::None && varies(trace_.law_of(t, node_.builder()));
  });
  if (!reads) return;
  for (const auto& results : visit_.laws) {
    const bool without = !results.empty() && std::none_of(results.begin(), results.end(), [](const SizeLaw& law) { return varies(law); });
    if (without) refuse("its result has the same size whatever the batch");
  }
}

void require_result_rows(BatchTrace& trace, std::size_t visit, NodeImport& node) { RebatchRule(trace, visit, node).require_rows(); }

}  // namespace rehearsal::formats
