#include "tests/graph/ops/described.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "base/error.hpp"
#include "base/join.hpp"
#include "tests/graph/ops/rows.hpp"

namespace rehearsal::graph {
namespace {

using Integers = std::vector<std::int64_t>;
constexpr std::array kTypes{DType::F64, DType::F32, DType::BF16, DType::I64, DType::I32, DType::Bool};

std::string text_of_type(const TensorType& type) { return std::string(name(type.dtype)) + to_text(type.shape); }

/// The same with another shape, another number of dimensions.
std::vector<Shape> other_shapes(const Shape& shape) {
  std::vector<Shape> others;
  const auto add = [&](const auto& change) {
    Shape other = shape;
    change(other);
    others.push_back(std::move(other));
  };
  add([](Shape& s) { s.push_back(2); });
  add([](Shape& s) { s.insert(s.begin(), 2); });
  for (std::size_t d = 0; d < shape.size(); ++d) add([&](Shape& s) { ++s[d]; });
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 0) add([&](Shape& s) { --s[d]; });
  if (!shape.empty()) add([](Shape& s) { s.pop_back(); });
  if (shape.size() > 1) add([](Shape& s) { s.erase(s.begin()); });
  return others;
}

std::string text_of_value(const AttributeValue& value) {
  const std::string text = Attributes({{"", value}}).to_text();
  return text.substr(1);  // behind "="
}

std::vector<AttributeValue> other_values(std::int64_t x) { return {x + 1, x - 1}; }
std::vector<AttributeValue> other_values(double x) { return {x + 1, -1 - x, 0.0}; }
std::vector<AttributeValue> other_values(const std::string&) { return {std::string("?")}; }
template <class T>
std::vector<AttributeValue> other_values(const std::vector<T>& list) {
  std::vector<AttributeValue> others;
  const auto add = [&](std::vector<T> other) { others.emplace_back(std::move(other)); };
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const T step : {T(1), T(-1)}) {
      auto other = list;
      other[i] += step;
      add(std::move(other));
    }
  }
  auto longer = list;
  longer.push_back(T(1));
  add(std::move(longer));
  if (!list.empty()) add({list.begin(), list.end() - 1});
  return others;
}

/// Numbers are left out, and names of types, so that one place in the source is one text.
std::string without_numbers(const std::string& message) {
  std::string text, word;
  for (const char c : message + " ") {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
      continue;
    }
    const bool number = std::ranges::all_of(word, [](char d) { return d >= '0' && d <= '9'; });
    if (!number && !dtype_from_name(word)) text += word;
    word.clear();
    if (c != ',' && c != '-') text += c;
  }
  return text;
}

/// What is taken with one result: "0 as f32 bf16, 1 [2,4] [3,3] -> f64[3,4]".
class Taken {
 public:
  explicit Taken(std::string results) : results_(std::move(results)) {}
  void add(const ChangedUse& change) {
    const bool same = change.subject == last_;
    text_ += (text_.empty() ? "" : same ? " " : ", ") + (same ? "" : change.subject + " ") + change.value;
    last_ = change.subject;
  }
  [[nodiscard]] const std::string& results() const { return results_; }
  [[nodiscard]] std::string text() const { return text_ + results_; }

 private:
  std::string results_, text_, last_;
};

/// Results as they were are not told, and those of another operand shortly.
std::string text_of_results(const ChangedUse& change, const std::vector<TensorType>& own, const std::vector<TensorType>& results) {
  if (results == own) return "";
  if (change.operand < 0) return " -> " + text_of(results);
  const auto& type = change.use.operands[static_cast<std::size_t>(change.operand)];
  if (std::ranges::all_of(results, [&](const TensorType& result) { return result == type; })) return " -> like it";
  auto of_its_type = own;
  for (TensorType& result : of_its_type) result.dtype = type ? type->dtype : result.dtype;
  return " -> " + (results == of_its_type ? "of its type" : text_of(results));
}

std::string labels_of(const std::vector<TensorLabels>& tensors) {
  return joined(tensors, " | ", [](const TensorLabels& labels) { return labels.empty() ? std::string("()") : text_of(labels); });
}

}  // namespace

std::vector<ChangedUse> with_other_operands(const RowUse& use) {
  std::vector<ChangedUse> changed;
  for (std::size_t i = 0; i < use.operands.size(); ++i) {
    if (!use.operands[i]) continue;
    const auto with = [&](const std::string& subject, const std::string& value, std::optional<TensorType> type) {
      changed.push_back({subject, value, use, static_cast<int>(i)});
      changed.back().use.operands[i] = std::move(type);
    };
    const TensorType& type = *use.operands[i];
    const std::string number = std::to_string(i);
    with("without", number, std::nullopt);
    for (const DType other : kTypes)
      if (other != type.dtype) with(number + " as", std::string(name(other)), TensorType{other, type.shape});
    for (const Shape& other : other_shapes(type.shape)) with(number, to_text(other), TensorType{type.dtype, other});
  }
  for (const DType other : {DType::F32, DType::I64, DType::Bool}) {
    if (use.operands.size() < 2 || !use.operands[0]) break;
    changed.push_back({"alike as", std::string(name(other)), use, 0});
    for (auto& type : changed.back().use.operands)
      if (type && type->dtype == use.operands[0]->dtype) type->dtype = other;
  }
  for (const std::size_t like : {std::size_t{0}, use.operands.empty() ? 0 : use.operands.size() - 1}) {
    changed.push_back({"one more, like", std::to_string(like), use});
    changed.back().use.operands.push_back(use.operands.empty() ? TensorType{DType::F32, {2}} : use.operands[like]);
    if (use.operands.size() < 2) break;
  }
  return changed;
}

std::vector<ChangedUse> with_other_attributes(const RowUse& use) {
  std::vector<ChangedUse> changed;
  for (const auto& [key, value] : use.attributes.items()) {
    changed.push_back({"without", key, use});
    changed.back().use.attributes.erase(key);
    for (const AttributeValue& other : std::visit([](const auto& v) { return other_values(v); }, value)) {
      if (other == value) continue;
      changed.push_back({key + " =", text_of_value(other), use});
      changed.back().use.attributes.set(key, other);
    }
  }
  return changed;
}

std::vector<ChangedUse> with_empty_operands(const RowUse& use) {
  std::vector<ChangedUse> changed;
  std::set<std::int64_t> sizes;
  const auto add = [&](const std::string& subject, const auto& empties) {
    changed.push_back({subject, "0", use});
    for (std::size_t i = 0; i < use.operands.size(); ++i)
      for (std::size_t d = 0; use.operands[i] && d < use.operands[i]->shape.size(); ++d)
        if (empties(i, d)) changed.back().use.operands[i]->shape[d] = 0;
  };
  for (std::size_t i = 0; i < use.operands.size(); ++i) {
    for (std::size_t d = 0; use.operands[i] && d < use.operands[i]->shape.size(); ++d) {
      sizes.insert(use.operands[i]->shape[d]);
      add(std::to_string(i) + "." + std::to_string(d), [&](std::size_t j, std::size_t e) { return i == j && d == e; });
    }
  }
  for (const std::int64_t size : sizes)
    add("all of " + std::to_string(size), [&](std::size_t i, std::size_t d) { return use.operands[i]->shape[d] == size; });
  return changed;
}

Outcome outcome_of(const RowUse& use) {
  try {
    auto results = use.row.infer({use.operands, {}, use.attributes});
    const std::vector<std::optional<TensorType>> types(results.begin(), results.end());
    const NodeView node{use.operands, types, use.attributes};
    (void)facts_of(use.row, node);
    return {std::move(results), "", work_of(use.row, node)};
  } catch (const BadInput& error) {
    return {{}, error.what(), {}};
  }
}

std::string text_of(const std::vector<TensorType>& types) { return joined(types, ", ", text_of_type); }

std::string facts_of(const OpSchema& row, const NodeView& node) {
  std::ostringstream text;
  text.precision(12);
  const Work work = work_of(row, node);
  text << work.flops.value() << " FLOPs, " << work.bytes.value() << " B";
  if (row.labels == nullptr) return text.str();
  const SplitRule rule = row.labels(node);
  text << ", " << (rule.inputs.empty() ? "" : labels_of(rule.inputs) + " ") << "-> " << labels_of(rule.outputs) << " of "
       << text_of(rule.kinds);
  for (const auto label : rule.ranged) text << ", " << label << " a range";
  return text.str();
}

std::string changes_of(const RowUse& use, std::set<std::string>& said) {
  const auto own = outcome_of(use).results;
  std::string taken, says;
  for (const auto& changes : {with_other_operands(use), with_other_attributes(use)}) {
    std::vector<Taken> by_results;
    for (const ChangedUse& change : changes) {
      const Outcome found = outcome_of(change.use);
      if (found.refusal.empty()) {
        const std::string results = text_of_results(change, own, found.results);
        auto place = std::ranges::find(by_results, results, &Taken::results);
        if (place == by_results.end()) place = by_results.insert(place, Taken(results));
        place->add(change);
      } else if (said.insert(without_numbers(found.refusal)).second) {
        says += "  " + change.subject + " " + change.value + ": " + found.refusal + "\n";
      }
    }
    for (const Taken& one : by_results) taken += (taken.empty() ? "" : "; ") + one.text();
  }
  return (taken.empty() ? "" : "  takes " + taken + "\n") + says;
}

std::string line_of(const OpSchema& row) {
  constexpr std::array kFamilies{"convolution", "matmul", "normalization", "pooling",   "elementwise",  "reduction",
                                 "movement",    "gather", "view",          "optimizer", "decomposition"};
  constexpr std::array kRules{"labels", "view", "transpose", "pieces", "concat", "opaque"};
  constexpr std::array kTraits{"view", "elementwise", "in place", "random", "data dependent", "positional", "training only", "same values"};
  constexpr std::array kLinear{"", ", linear in its first operand", ", linear in all operands"};
  constexpr std::array kParts{"", ", attention's product", ", attention's softmax", ", attention's choice"};
  std::ostringstream text;
  text << row.name << ": " << kFamilies.at(static_cast<std::size_t>(row.family)) << ", by "
       << kRules.at(static_cast<std::size_t>(row.dims));
  if (row.dims == DimsRule::Labels && row.labels == nullptr) text << ", of which it has none";
  for (std::size_t t = 0; t < kTraits.size(); ++t)
    if (has(row.traits, static_cast<Trait>(1U << t))) text << ", " << kTraits[t];
  text << kLinear.at(static_cast<std::size_t>(row.linear)) << kParts.at(static_cast<std::size_t>(row.in_attention));
  if (row.addend >= 0) text << ", adds operand " << int{row.addend};
  for (std::size_t i = 0; i < 8; ++i)
    if (row.is_batch_statistic(i)) text << ", operand " << i << " a sum of the batch";
  if (row.window) {
    text << ", window of " << int{row.window->kernel} << " from " << int{row.window->large} << " to " << int{row.window->small};
    text << (row.window->sums_positions ? ", sums positions" : "") << (row.window->crops ? ", crops" : "");
    text << (row.window->averages ? ", averages" : "");
  }
  text << (row.sees_parts ? ", sees parts" : "") << (row.evaluate != nullptr ? ", folded" : "");
  text << (row.gradient != nullptr ? ", has a gradient" : "");
  return text.str();
}

}  // namespace rehearsal::graph
