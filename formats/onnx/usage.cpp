#include "formats/onnx/usage.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <set>
#include <string_view>
#include <unordered_set>

#include "base/error.hpp"
#include "base/words.hpp"

namespace rehearsal::formats {
namespace {

/// Operands by bit: bit i stands for operand i.
struct OperandUse {
  std::string_view op;
  unsigned weights = 0, state = 0, untrained = 0;
};
/// Operators of which no operand is trained, and those of which the first alone may be.
constexpr std::string_view kNoneTrained =
    "Range ConstantOfShape Mod Equal Less Greater LessOrEqual GreaterOrEqual OneHot Shape Size RandomUniformLike RandomNormalLike";
constexpr std::string_view kFirstTrained =
    "Resize Upsample Pad Clip Dropout SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss QuantizeLinear DequantizeLinear RotaryEmbedding";
constexpr OperandUse kOperandUses[] = {
    {"Conv", 0b110},
    {"ConvTranspose", 0b110},
    {"DeformConv", 0b1010},
    {"Gemm", 0b110},
    {"Gather", 0b1, 0, 0b10},
    {"PRelu", 0b10},
    {"BatchNormalization", 0b110, 0b11000},
    {"LayerNormalization", 0b110},
    {"GroupNormalization", 0b110},
    {"RMSNormalization", 0b10},
    {"LSTM", 0b10001110},
    {"GRU", 0b1110},
    {"RNN", 0b1110},
    {"Pow", 0, 0, 0b10},
    {"Where", 0, 0, 0b1},
    {"CastLike", 0, 0, 0b10},
};
constexpr std::array<std::string_view, 13> kPassThrough = {"Cast",    "CastLike",        "Reshape", "Transpose", "Unsqueeze",
                                                           "Squeeze", "Flatten",         "Slice",   "Concat",    "Split",
                                                           "Expand",  "SplitToSequence", "Tile"};

bool is_normalization(std::string_view op) {
  return op == "BatchNormalization" || op == "LayerNormalization" || op == "GroupNormalization" || op == "RMSNormalization";
}

bool has_operand(unsigned mask, int i) { return (mask >> std::min(i, 31) & 1U) != 0; }

unsigned use_of(const onnx::NodeProto& node, int operand) {
  const std::string& op = node.op_type();
  if (has_word(kNoneTrained, op) || (operand > 0 && has_word(kFirstTrained, op))) return kUntrainedUse;
  const auto* row = std::find_if(std::begin(kOperandUses), std::end(kOperandUses), [&](const OperandUse& use) { return use.op == op; });
  if (row != std::end(kOperandUses)) {
    if (has_operand(row->weights, operand)) return is_normalization(op) ? kWeightUse | kNormUse : kWeightUse;
    if (has_operand(row->state, operand)) return kStateUse;
    if (has_operand(row->untrained, operand)) return kUntrainedUse;
  }
  if (op == "InstanceNormalization" && operand > 0) return kInstanceUse;
  return op == "MatMul" && operand == 1 ? kMatrixUse : kNeutralUse;
}

class UsageWalk {
 public:
  explicit UsageWalk(const FunctionsByName& functions) : functions_(functions) {}

  UsageByName of(const NodeList& nodes) {
    UsageByName usage;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) add(**node, usage);
    return usage;
  }

 private:
  static constexpr int kDeepest = 32;

  void add(const onnx::NodeProto& node, UsageByName& usage) {
    unsigned results = 0;
    for (const std::string& name : node.output()) results |= name.empty() ? 0 : usage[name];
    const bool passes = std::find(kPassThrough.begin(), kPassThrough.end(), node.op_type()) != kPassThrough.end();
    const auto function = functions_.find(function_key(node.domain(), node.op_type()));
    const std::vector<unsigned> of_call = function == functions_.end() ? std::vector<unsigned>{} : call(*function->second);
    for (int i = 0; i < node.input_size(); ++i) {
      unsigned& bits = usage[node.input(i)];
      const auto k = static_cast<std::size_t>(i);
      if (k < of_call.size())
        bits |= of_call[k];
      else if (node.op_type() == "Identity")
        bits |= results << kThroughIdentity;
      else if (passes && use_of(node, i) == kNeutralUse)
        bits |= results != 0 ? results : static_cast<unsigned>(kNeutralUse);
      else
        bits |= use_of(node, i);
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) add_body(attribute.g(), usage);
    }
  }

  void add_body(const onnx::GraphProto& body, UsageByName& usage) {
    if (++depth_ <= kDeepest) {
      for (auto node = body.node().rbegin(); node != body.node().rend(); ++node) add(*node, usage);
    }
    --depth_;
  }

  /// How a function's body uses its inputs.
  std::vector<unsigned> call(const onnx::FunctionProto& function) {
    const auto known = calls_.find(&function);
    if (known != calls_.end()) return known->second;
    std::vector<unsigned> bits(static_cast<std::size_t>(function.input_size()), kNeutralUse);
    if (++depth_ <= kDeepest) {
      calls_[&function] = bits;  // ends a recursion
      UsageByName usage;
      for (auto node = function.node().rbegin(); node != function.node().rend(); ++node) add(*node, usage);
      for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = usage[function.input(static_cast<int>(i))];
    }
    --depth_;
    return calls_[&function] = bits;
  }

  const FunctionsByName& functions_;
  std::unordered_map<const onnx::FunctionProto*, std::vector<unsigned>> calls_;
  int depth_ = 0;
};

constexpr int kDeepestCapture = 32;

void add_captured(const onnx::GraphProto& body, std::vector<std::string>& names, int depth) {
  if (depth > kDeepestCapture) return;
  std::unordered_set<std::string> own;
  for (const auto& input : body.input()) own.insert(input.name());
  for (const auto& tensor : body.initializer()) own.insert(tensor.name());
  for (const auto& node : body.node()) own.insert(node.output().begin(), node.output().end());
  std::vector<std::string> read;
  for (const auto& node : body.node()) {
    read.insert(read.end(), node.input().begin(), node.input().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) add_captured(attribute.g(), read, depth + 1);
    }
  }
  for (const auto& output : body.output()) read.push_back(output.name());
  for (std::string& name : read) {
    if (!own.contains(name)) names.push_back(std::move(name));
  }
}

}  // namespace

std::string function_key(const std::string& domain, const std::string& name) { return domain + ":" + name; }

std::string described(const onnx::NodeProto& node) {
  const std::string name = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : "";
  return "node '" + name + "' (" + node.op_type() + ")";
}

UsageByName usage_of(const NodeList& nodes, const FunctionsByName& functions) { return UsageWalk(functions).of(nodes); }

std::vector<std::string> names_read(const onnx::NodeProto& node) {
  std::vector<std::string> names(node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) add_captured(attribute.g(), names, 0);
  }
  return names;
}

NodeList in_topological_order(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const std::string& where) {
  std::unordered_map<std::string, int> producer;
  for (int n = 0; n < nodes.size(); ++n) {
    for (const std::string& name : nodes[n].output()) {
      if (name.empty() || producer.emplace(name, n).second) continue;
      throw BadInput(where, described(nodes[n]) + " produces '" + name + "', which " + described(nodes[producer[name]]) +
                                " produces already; names must be unique");
    }
  }
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(nodes.size()));
  std::vector<int> waiting(static_cast<std::size_t>(nodes.size()));
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int n = 0; n < nodes.size(); ++n) {
    const auto read = names_read(nodes[n]);
    for (const std::string& name : std::set<std::string>(read.begin(), read.end())) {
      const auto found = producer.find(name);
      if (found == producer.end()) continue;
      readers[static_cast<std::size_t>(found->second)].push_back(n);
      ++waiting[static_cast<std::size_t>(n)];
    }
    if (waiting[static_cast<std::size_t>(n)] == 0) ready.push(n);
  }
  NodeList order;
  while (!ready.empty()) {
    const int n = ready.top();
    ready.pop();
    order.push_back(&nodes[n]);
    for (const int reader : readers[static_cast<std::size_t>(n)]) {
      if (--waiting[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  for (int n = 0; n < nodes.size(); ++n) {
    if (waiting[static_cast<std::size_t>(n)] > 0)
      throw BadInput(where, described(nodes[n]) + " reads, directly or not, what it produces: the graph has a cycle");
  }
  return order;
}

}  // namespace rehearsal::formats
