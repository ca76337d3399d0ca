#include "formats/onnx/stored.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "formats/onnx/positions.hpp"
#include "graph/builder.hpp"

namespace rehearsal::formats {
namespace {

constexpr double kMasked = -1e4;  ///< additive masks hide with this or less
constexpr std::string_view kSignatureKey = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr std::string_view kStoredKindKey = "pkg.torch.export.graph_signature.InputSpec.kind";

/// Names that exporters make up for constants: "val_12", "const_fold_opt__7", "onnx::Gemm_63", "412".
bool is_made_up(const std::string& name) {
  const bool digits = std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits || name.starts_with("val_") || name.starts_with("onnx::") || name.find("const") != std::string::npos ||
         name.find("Const") != std::string::npos;
}

/// A name that TorchScript's exporter gives to what a Constant node makes: "/norm/Constant_4_output_0". It stores parameters otherwise.
bool is_constant_node(const std::string& name) { return name.find("Constant") != std::string::npos && name.ends_with("_output_0"); }

/// The ones and zeros of a normalization without weights.
bool is_left_out_norm(const FileTensor& candidate) {
  constexpr unsigned kNorm = kWeightUse | kNormUse;
  const bool only_norm = (candidate.usage & kNormUse) != 0 && (candidate.usage & ~kNorm) == 0;
  return only_norm && (is_constant_node(candidate.name) || (candidate.declared == DeclaredKind::Unlisted && candidate.all_listed));
}

/// Values are 0 and one number that hides.
bool is_additive_mask(const graph::TensorType& type, const graph::Contents& contents) {
  if (type.shape.size() < 2 || graph::element_count(type.shape) > graph::kLargestFolded || !contents.known()) return false;
  if (std::holds_alternative<graph::Fill>(contents.source) || std::holds_alternative<graph::RandomNormal>(contents.source)) return false;
  double hidden = 0;
  for (const double x : graph::read_reals(contents, type.shape, 0, 0)) {
    if (x == 0) continue;
    if (!(x <= kMasked) || (hidden != 0 && x != hidden)) return false;
    hidden = x;
  }
  return hidden != 0;
}

/// A number that masks are made with.
bool hides(const graph::Contents& contents, const graph::TensorType& type) {
  return type.shape.empty() && contents.known() && graph::read_reals(contents, type.shape, 0, 0).at(0) <= kMasked;
}

/// All elements are 0, or all are 1.
bool is_uniform(const graph::Contents& contents, const graph::TensorType& type) {
  if (!contents.known() || graph::element_count(type.shape) > graph::kLargestFolded) return false;
  const auto values = graph::read_reals(contents, type.shape, 0, 0);
  const double first = values.empty() ? 0 : values[0];
  return (first == 0 || first == 1) && std::all_of(values.begin(), values.end(), [&](double x) { return x == first; });
}

DeclaredKind kind_of(std::string_view text) {
  if (text == "PARAMETER") return DeclaredKind::Parameter;
  if (text == "BUFFER" || text == "CONSTANT_TENSOR") return DeclaredKind::Buffer;
  return text == "USER_INPUT" ? DeclaredKind::UserInput : DeclaredKind::Unknown;
}

/// "encoder.weight", as modules name what they hold; "input.1" is how TorchScript numbers values.
bool is_member_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string::npos && name.find_first_not_of("0123456789", dot + 1) != std::string::npos;
}

}  // namespace

graph::TensorRole role_of_stored(const FileTensor& candidate, const graph::Contents& contents) {
  using graph::TensorRole;
  if (!is_float(candidate.type.dtype)) return TensorRole::Constant;
  const unsigned usage = candidate.usage;
  const bool state = (usage & kStateUse) != 0 && (usage & kWeightUse) == 0;
  if (state) return TensorRole::State;
  if (candidate.declared == DeclaredKind::Parameter) return TensorRole::Parameter;
  if (candidate.declared == DeclaredKind::Buffer) return TensorRole::Constant;
  const bool holds_weights = (usage & (kWeightUse | kMatrixUse)) != 0;
  if (candidate.declared == DeclaredKind::Unlisted && !holds_weights)
    return TensorRole::Constant;  // a folded mask or position, no folded weight
  const bool left_out = is_left_out_norm(candidate) || (usage == kInstanceUse && is_made_up(candidate.name));
  if (left_out && is_uniform(contents, candidate.type)) return TensorRole::Constant;
  const bool named_scalar = candidate.traced && !is_made_up(candidate.name) && !hides(contents, candidate.type);
  if ((candidate.type.shape.empty() && !named_scalar) || (usage != 0 && (usage & ~static_cast<unsigned>(kUntrainedUse)) == 0))
    return TensorRole::Constant;
  if (graph::element_count(candidate.type.shape) == 1 && !holds_weights && is_made_up(candidate.name)) return TensorRole::Constant;
  if ((usage & kWeightUse) != 0) return TensorRole::Parameter;  // values are looked at only where they can decide
  const bool untrained = is_additive_mask(candidate.type, contents) || is_rotary_frequencies(candidate.type, contents) ||
                         is_sinusoidal_table(candidate.type, contents);
  return untrained ? TensorRole::Constant : TensorRole::Parameter;
}

bool is_weight_input(const FileTensor& candidate, bool fixed) {
  if (candidate.left_out) return true;
  if (candidate.declared == DeclaredKind::UserInput) return false;
  if (candidate.declared == DeclaredKind::Parameter || candidate.declared == DeclaredKind::Buffer) return true;
  if (!fixed || !is_float(candidate.type.dtype)) return false;
  const unsigned usage = candidate.usage | candidate.usage >> kThroughIdentity;
  return (usage & (kWeightUse | kStateUse | kInstanceUse)) != 0 || is_member_name(candidate.name);
}

bool is_generated_weight(const FileTensor& candidate, const std::string& shape_name) {
  if (!is_float(candidate.type.dtype) || candidate.type.shape.empty()) return false;
  if (candidate.traced || candidate.declared == DeclaredKind::Unlisted) return false;  // PyTorch's exporters store what is a weight
  // the convention of ONNX's weightless test models: the shape is an initializer named after the tensor
  if ((candidate.usage & (kWeightUse | kStateUse)) != 0 || shape_name == candidate.name + "__SHAPE") return true;
  return (candidate.usage & kMatrixUse) != 0 && candidate.type.shape.size() == 2;
}

Declarations::Declarations(const onnx::ModelProto& model) {
  for (const auto* list : {&model.graph().value_info(), &model.graph().input()}) {
    for (const auto& info : *list) {
      infos_.emplace(info.name(), &info);
      for (const auto& entry : info.metadata_props()) {
        if (entry.key() == kStoredKindKey) kinds_[info.name()] = kind_of(entry.value());
      }
    }
  }
  for (const auto& entry : model.metadata_props()) {
    if (entry.key() != "weights") continue;  // inputs that stand for stored tensors, one per line
    std::istringstream lines(entry.value());
    for (std::string line; std::getline(lines, line);) left_out_.insert(line);
  }
  for (const auto& entry : model.graph().metadata_props()) {
    if (entry.key() == kSignatureKey) read_signature(entry.value());
  }
}

/// Lines such as "p_fc_weight: PARAMETER target='fc.weight'", then those of the outputs.
void Declarations::read_signature(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line != "# outputs";) {
    const std::size_t colon = line.find(": "), target = line.find(" target='");
    if (colon == std::string::npos || target == std::string::npos || target < colon) continue;
    const std::size_t start = target + std::string_view(" target='").size(), end = line.find('\'', start);
    const DeclaredKind kind = kind_of(std::string_view(line).substr(colon + 2, target - colon - 2));
    const std::string name = line.substr(start, end - start);
    kinds_.emplace(name, kind);
    if (kind == DeclaredKind::Parameter) parameters_.insert(name);
    if (kind == DeclaredKind::Buffer) buffers_.insert(name);
    if (kind != DeclaredKind::Unknown)
      placeholders_.emplace(line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' ')), name);
  }
}

DeclaredKind Declarations::kind(const std::string& name) const {
  const auto found = kinds_.find(name);
  if (found != kinds_.end()) return found->second;
  return parameters_.empty() ? DeclaredKind::Unknown : DeclaredKind::Unlisted;
}

const onnx::ValueInfoProto* Declarations::value_info(const std::string& name) const {
  const auto found = infos_.find(name);
  return found == infos_.end() ? nullptr : found->second;
}

}  // namespace rehearsal::formats
