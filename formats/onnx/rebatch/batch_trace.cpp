#include "formats/onnx/rebatch/batch_trace.hpp"

#include <algorithm>
#include <array>

#include "formats/onnx/rebatch/batch_rules.hpp"
#include "formats/onnx/usage.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;

std::vector<TensorId> tensors_of(const Meaning& meaning) {
  if (const auto* t = std::get_if<TensorId>(&meaning)) return {*t};
  if (const auto* parts = std::get_if<std::vector<TensorId>>(&meaning)) return *parts;
  return {};
}

std::map<std::string, std::vector<std::int64_t>> whole_numbers(const onnx::NodeProto& proto) {
  std::map<std::string, std::vector<std::int64_t>> attributes;
  for (const auto& a : proto.attribute()) {
    if (a.ints_size() > 0)
      attributes[a.name()] = {a.ints().begin(), a.ints().end()};
    else if (a.has_i())
      attributes[a.name()] = {a.i()};
  }
  return attributes;
}

}  // namespace

void BatchTrace::begin(Pass pass, std::int64_t batch) {
  pass_ = pass;
  batch_ = batch;
  next_ = 0;
  if (pass != Pass::Probe) return;
  batches_.probe = batch;
  laws_.clear();
  origins_.clear();
  random_.clear();
  summed_.clear();
  assumptions_.clear();
  places_.clear();
}

bool BatchTrace::try_another_place() {
  while (!places_.empty() && behind_.contains(places_.back())) places_.pop_back();
  if (places_.empty()) return false;
  behind_.insert(places_.back());
  patches_.clear();
  return true;
}

std::optional<graph::TensorType> BatchTrace::grown(TensorId t) const {
  const auto found = grown_.find(t);
  if (found == grown_.end() || read_as_they_are_.contains(t)) return std::nullopt;
  return found->second;
}

void BatchTrace::end() const {
  if (pass_ != Pass::Written && next_ != visits_.size()) throw NotRebatchable{"how often its nodes run depends on the batch"};
}

std::int64_t BatchTrace::choose_probe() const {
  constexpr std::array<std::int64_t, 12> kPrimes = {13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59};
  const auto divides_none = [&](std::int64_t prime) {
    const auto free = [&](const graph::TensorType& type) {
      return std::none_of(type.shape.begin(), type.shape.end(), [&](std::int64_t d) { return d % prime == 0; });
    };
    return prime != batches_.written && std::all_of(visits_.begin(), visits_.end(), [&](const Visit& visit) {
             return std::all_of(visit.outputs.begin(), visit.outputs.end(),
                                [&](const auto& types) { return std::all_of(types.begin(), types.end(), free); });
           });
  };
  const auto* found = std::find_if(kPrimes.begin(), kPrimes.end(), divides_none);
  return found == kPrimes.end() ? 61 : *found;
}

std::size_t BatchTrace::before(NodeImport& node, const onnx::NodeProto& proto) {
  const std::size_t at = next_++;
  if (pass_ == Pass::Written) {
    record_operands(visits_.emplace_back(), node, proto);
    return at;
  }
  (void)same_visit(at, proto);
  const auto operands = node.meanings();
  apply_patches(at, node);
  for (std::size_t i = 0; pass_ == Pass::Wanted && i < operands.size(); ++i) {
    const auto* t = std::get_if<TensorId>(&operands[i]);
    if (t && node.meaning(i) == operands[i]) read_as_they_are_.insert(*t);
  }
  if (pass_ == Pass::Probe) {
    Visit& visit = visits_[at];
    visit.law.reset();
    visit.operands.clear();
    for (std::size_t i = 0; i < node.input_count(); ++i) {
      const auto parts = tensors_of(node.meaning(i));
      visit.operands.push_back(parts.size() == 1 ? parts[0] : TensorId::None);
    }
    apply_rule(*this, at, node);
  }
  return at;
}

void BatchTrace::note_input(TensorId t, const graph::Shape& shape) {
  if (pass_ != Pass::Probe) return;
  SizeLaw law = constant_law(shape);
  law[0] = {{Factor::Kind::Batch, batches_.written, batches_.probe}};
  laws_[t] = std::move(law);
}

void BatchTrace::after(std::size_t at, NodeImport& node) {
  if (pass_ == Pass::Written) return record_results(visits_[at], node);
  if (pass_ == Pass::Wanted) return check_laws(visits_[at], node);
  find_laws(at, node);
  follow_flags(visits_[at], node);
}

const Visit& BatchTrace::same_visit(std::size_t at, const onnx::NodeProto& proto) const {
  if (at >= visits_.size() || visits_[at].described != described(proto))
    throw NotRebatchable{described(proto) + ": which nodes run depends on the batch"};
  return visits_[at];
}

void BatchTrace::record_operands(Visit& visit, const NodeImport& node, const onnx::NodeProto& proto) {
  visit.op = proto.op_type();
  visit.described = described(proto);
  visit.attributes = whole_numbers(proto);
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    const auto parts = tensors_of(node.meaning(i));
    visit.inputs.emplace_back();
    visit.values.emplace_back();
    if (parts.size() != 1) continue;
    visit.inputs.back() = node.builder().type(parts[0]);
    const graph::Value* value = node.builder().value(parts[0]);
    if (!value || value->count() > kMostListed) continue;
    visit.values.back().emplace();
    for (std::int64_t k = 0; k < value->count(); ++k) visit.values.back()->push_back(value->real(k));
  }
}

void BatchTrace::record_results(Visit& visit, const NodeImport& node) {
  for (const Meaning& meaning : node.results()) {
    auto& types = visit.outputs.emplace_back();
    for (const TensorId t : tensors_of(meaning)) types.push_back(node.builder().type(t));
  }
}

std::int64_t BatchTrace::size_now(const SizeFactors& size) const {
  if (pass_ == Pass::Probe) return probed_size(size);
  const auto now = size_at(size, batches_, batch_);
  if (!now) throw NotRebatchable{"a size of " + std::to_string(written_size(size)) + " has no counterpart"};
  return *now;
}

SizeLaw BatchTrace::law_of(TensorId t, const graph::GraphBuilder& builder) const {
  const auto found = laws_.find(t);
  return found == laws_.end() ? constant_law(builder[t].type.shape) : found->second;
}

/// A size of a result is one of the operands', as a rule.
SizeFactors BatchTrace::law_of_size(const Visit& visit, std::int64_t written, std::int64_t probed, const NodeImport& node) const {
  if (written == probed) return constant_size(written);
  std::vector<SizeFactors> known;
  for (const TensorId t : visit.operands) {
    if (t == TensorId::None) continue;
    for (const SizeFactors& factors : law_of(t, node.builder())) known.push_back(factors);
  }
  const auto patched = patches_.find(static_cast<std::size_t>(&visit - visits_.data()));
  if (patched != patches_.end()) {
    for (const OperandPatch& patch : patched->second) known.push_back(patch.size);
  }
  const SizeFactors* found = nullptr;
  bool several = false;
  for (const SizeFactors& factors : known) {
    if (written_size(factors) != written || probed_size(factors) != probed) continue;
    several = several || (found && *found != factors);
    found = &factors;
  }
  if (found && !several) return *found;
  if (written == batches_.written && probed == batches_.probe) return {{Factor::Kind::Batch, written, probed}};
  return {{Factor::Kind::Other, written, probed}};
}

void BatchTrace::find_laws(std::size_t at, NodeImport& node) {
  Visit& visit = visits_[at];
  visit.laws.clear();
  bool first = true;
  for (const Meaning& meaning : node.results()) {
    auto& laws = visit.laws.emplace_back();
    const auto parts = tensors_of(meaning);
    const auto& written = visit.outputs[visit.laws.size() - 1];
    if (parts.size() != written.size()) throw NotRebatchable{visit.described + ": how many parts it gives depends on the batch"};
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const graph::Shape now = node.builder().type(parts[k]).shape;
      if (now.size() != written[k].shape.size()) throw NotRebatchable{visit.described + ": the rank of its result depends on the batch"};
      SizeLaw law;
      for (std::size_t d = 0; d < now.size(); ++d) law.push_back(law_of_size(visit, written[k].shape[d], now[d], node));
      if (first && visit.law && written_shape(*visit.law) == written[k].shape && probed_shape(*visit.law) == now) law = *visit.law;
      first = false;
      if (!origins_.contains(parts[k])) {
        laws_.emplace(parts[k], law);
        if (std::find(visit.operands.begin(), visit.operands.end(), parts[k]) == visit.operands.end()) origins_.emplace(parts[k], at);
      }
      laws.push_back(laws_.at(parts[k]));
    }
  }
  require_result_rows(*this, at, node);
}

void BatchTrace::check_laws(const Visit& visit, const NodeImport& node) const {
  const auto results = node.results();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto parts = tensors_of(results[i]);
    for (std::size_t k = 0; k < parts.size() && k < visit.laws[i].size(); ++k) {
      const graph::Shape now = node.builder().type(parts[k]).shape;
      const SizeLaw& law = visit.laws[i][k];
      for (std::size_t d = 0; d < now.size(); ++d) {
        if (d < law.size() && size_at(law[d], batches_, batch_) == now[d]) continue;
        throw NotRebatchable{visit.described + ": its result has shape " + graph::to_text(now) + " with a batch of " +
                             std::to_string(batch_) + " and " + graph::to_text(written_shape(law)) + " with " +
                             std::to_string(batches_.written) + ", which do not go together"};
      }
    }
  }
}

void BatchTrace::apply_patches(std::size_t visit, NodeImport& node) {
  const auto found = patches_.find(visit);
  if (found == patches_.end()) return;
  for (const OperandPatch& patch : found->second) apply(patch, node);
}

std::vector<std::pair<std::string, std::string>> BatchTrace::rewritten() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (std::size_t visit = 0; visit < visits_.size(); ++visit) {
    const auto found = patches_.find(visit);
    if (found == patches_.end()) continue;
    for (const OperandPatch& patch : found->second) {
      const std::string operand = "operand " + std::to_string(patch.operand), index = std::to_string(patch.index);
      all.emplace_back(visits_[visit].described, patch.kind == OperandPatch::Kind::Sizes
                                                     ? operand + ": element " + index + ", a size, follows the batch"
                                                     : operand + ": its length along axis " + index + " follows the batch");
    }
  }
  return all;
}

std::vector<std::string> BatchTrace::remarks() const {
  std::size_t sizes = 0, rows = 0;
  for (const auto& [visit, patches] : patches_) {
    const bool any = std::any_of(patches.begin(), patches.end(), [](const auto& p) { return p.kind == OperandPatch::Kind::Sizes; });
    sizes += any ? 1U : 0U;
    rows += static_cast<std::size_t>(
        std::count_if(patches.begin(), patches.end(), [](const auto& p) { return p.kind != OperandPatch::Kind::Sizes; }));
  }
  std::vector<std::string> all;
  const std::string from = "the model is written for a batch of " + std::to_string(batches_.written) + ", and used with " +
                           std::to_string(batch_) + ": " + std::to_string(sizes) + " shapes and " + std::to_string(rows) +
                           " constants that have it written out follow";
  all.push_back(from);
  if (batches_.written != 1) return all;
  std::string places;
  for (std::size_t i = 0; i < assumptions_.size() && i < 3; ++i) places += (i == 0 ? "" : "; ") + assumptions_[i];
  all.push_back("with a batch of 1 in the file, a dimension of 1 may be the batch or may not: " +
                (assumptions_.empty() ? std::string("no place was found where that matters")
                                      : std::to_string(assumptions_.size()) + " places were taken for the batch (" + places + ")") +
                "; export with a batch of 2 or more, or with a dynamic one, to be sure");
  return all;
}

}  // namespace rehearsal::formats
