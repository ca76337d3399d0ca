// Binding symbols to sizes, and what the file declares about its inputs.

#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
#include "formats/onnx/importer.hpp"

namespace rehearsal::formats {
namespace {

std::string quoted(const std::set<std::string>& names) {
  return joined(names, ", ", [](const std::string& name) { return "'" + name + "'"; });
}

}  // namespace

/// Each dimension as a number, an expression, or (when the file leaves it open) the name "<tensor>.<axis>".
std::vector<std::string> Importer::dimension_texts(const onnx::ValueInfoProto& info) const {
  std::vector<std::string> texts;
  for (const auto& dim : info.type().tensor_type().shape().dim()) {
    const bool known = dim.has_dim_value() && dim.dim_value() >= 0;
    const bool named = !known && !dim.dim_param().empty() && dim.dim_param() != "?" && dim.dim_param() != "-1" && dim.dim_param() != "None";
    texts.push_back(known ? std::to_string(dim.dim_value()) : named ? dim.dim_param() : info.name() + "." + std::to_string(texts.size()));
  }
  return texts;
}

graph::TensorType Importer::bound_type(const onnx::ValueInfoProto& info) const {
  graph::TensorType type{dtype_of(info.type().tensor_type().elem_type(), info.name()), {}};
  for (const std::string& text : dimension_texts(info)) {
    std::set<std::string> unbound;
    const auto size = evaluate_size(text, bindings_, &unbound);
    if (!size)
      throw BadInput("tensor '" + info.name() + "'", "its size '" + text + "' depends on " + quoted(unbound) + ", which has no value");
    if (*size < 0)
      throw BadInput("tensor '" + info.name() + "'", "its size '" + text + "' is " + std::to_string(*size) + "; it must not be negative");
    type.shape.push_back(*size);
  }
  return type;
}

bool Importer::has_written_batch(const onnx::ValueInfoProto& info) const {
  const auto& dims = info.type().tensor_type().shape();
  return dims.dim_size() > 0 && dims.dim(0).has_dim_value() && dims.dim(0).dim_value() == watcher_->written();
}

std::optional<std::int64_t> Importer::written_batch() {
  prepare();
  std::vector<std::int64_t> sizes;
  for (const auto& info : file_.model.graph().input()) {
    const auto& shape = info.type().tensor_type().shape();
    if (!info.type().has_tensor_type() || options_.given.contains(info.name()) || shape.dim_size() == 0 || !is_data_input(info)) continue;
    if (!shape.dim(0).has_dim_value()) return std::nullopt;
    sizes.push_back(shape.dim(0).dim_value());
  }
  const auto several = std::find_if(sizes.begin(), sizes.end(), [](std::int64_t size) { return size > 1; });
  if (sizes.empty() || std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 1; })) return std::nullopt;
  return several == sizes.end() ? 1 : *several;  // inputs with one row are the same for all samples
}

bool Importer::is_data_input(const onnx::ValueInfoProto& info) const {
  if (main_.initializers.contains(info.name())) return false;
  const auto texts = dimension_texts(info);
  graph::TensorType type{dtype_of(info.type().tensor_type().elem_type(), info.name()), {}};
  bool fixed = true;
  for (const std::string& text : texts) {
    const auto size = evaluate_size(text, {});
    fixed = fixed && size.has_value();
    type.shape.push_back(size.value_or(1));
  }
  return !is_weight_input(candidate(info.name(), type, main_), fixed);
}

void Importer::bind_first_dimensions() {
  for (const auto& info : file_.model.graph().input()) {
    if (!info.type().has_tensor_type() || !is_data_input(info)) continue;
    const auto texts = dimension_texts(info);
    if (texts.empty()) continue;
    std::set<std::string> unbound;
    const auto size = evaluate_size(texts[0], bindings_, &unbound);
    if (!size && unbound.size() == 1 && *unbound.begin() == texts[0]) {
      bindings_[texts[0]] = *options_.batch;
    } else if (!watcher_ && size && *size != *options_.batch && !options_.binds.contains(texts[0])) {
      warn("input '" + info.name() + "' has " + std::to_string(*size) + " rows in the file, not the batch of " +
           std::to_string(*options_.batch));
    }
  }
}

void Importer::bind_sizes() {
  prepare();
  bindings_ = options_.binds;
  for (const auto& [name, value] : bindings_) {
    if (value < 0) throw BadInput("--bind " + name + "=" + std::to_string(value), "a size must not be negative");
  }
  if (options_.batch && *options_.batch < 1) throw BadInput("--batch " + std::to_string(*options_.batch), "must be at least 1");
  if (options_.batch) bind_first_dimensions();
  std::set<std::string> unbound, first;
  std::set<std::string> known;
  for (const auto& info : file_.model.graph().input()) {
    if (!info.type().has_tensor_type() || main_.initializers.contains(info.name()) || options_.given.contains(info.name())) continue;
    const auto texts = dimension_texts(info);
    for (std::size_t d = 0; d < texts.size(); ++d) {
      std::set<std::string> open;
      (void)evaluate_size(texts[d], bindings_, &open);
      (void)evaluate_size(texts[d], {}, &known);
      if (d == 0) first.insert(open.begin(), open.end());
      unbound.merge(open);
    }
  }
  for (const auto& [name, value] : options_.binds) {
    if (!known.contains(name))
      warn("--bind " + name + "=" + std::to_string(value) + ": no input has a size of this name" +
           (known.empty() ? "" : "; there are " + quoted(known)));
  }
  if (!unbound.empty() && !options_.assume_sizes) refuse_unbound(unbound, first);
  if (!unbound.empty()) assume(unbound, first);
  for (const auto& [name, value] : bindings_) note("bound", name, "to " + std::to_string(value));
}

void Importer::refuse_unbound(const std::set<std::string>& unbound, const std::set<std::string>& first) const {
  const std::string example = *unbound.begin();
  throw BadInput("the sizes " + quoted(unbound) + " have no value; give each with --bind, as in --bind " + example + "=16" +
                 (first.empty() || options_.batch ? "" : ", and the first dimension of the inputs (" + quoted(first) + ") with --batch"));
}

void Importer::assume(const std::set<std::string>& unbound, const std::set<std::string>& first) {
  constexpr std::int64_t kSamples = 4, kOther = 16;
  for (const auto& name : unbound) bindings_[name] = first.contains(name) ? kSamples : kOther;
  warn("sizes without a value are assumed: " +
       joined(unbound, ", ", [&](const std::string& name) { return "'" + name + "' = " + std::to_string(bindings_.at(name)); }) +
       "; give them with --batch and --bind");
}

}  // namespace rehearsal::formats
