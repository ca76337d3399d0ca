#include "formats/onnx/notes.hpp"

#include "base/join.hpp"
#include "formats/onnx/quoted_list.hpp"

namespace rehearsal::formats {
namespace {

constexpr std::string_view kClassesKey = "pkg.torch.onnx.class_hierarchy";
constexpr std::string_view kCallKey = "pkg.torch.onnx.fx_node";
constexpr std::string_view kStackKey = "pkg.torch.onnx.stack_trace";

std::string_view note(const onnx::NodeProto& node, std::string_view key) {
  for (const auto& entry : node.metadata_props())
    if (entry.key() == key) return entry.value();
  return {};
}

void set_note(onnx::NodeProto& node, std::string_view key, std::string value) {
  auto& entry = *node.add_metadata_props();
  entry.set_key(std::string(key));
  entry.set_value(std::move(value));
}

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The entries of "a, [b, c], d)", up to the bracket that closes what was open before.
std::vector<std::string> entries_until_closed(std::string_view text) {
  std::vector<std::string> entries;
  std::size_t begin = 0, depth = 0;
  const auto take = [&](std::size_t end) {
    const std::string_view entry = without_spaces(text.substr(begin, end - begin));
    if (!entry.empty()) entries.emplace_back(entry);
    begin = end + 1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ',' && depth == 0) take(i);
    if (c != ')' && c != ']' && c != '}') continue;
    if (depth == 0) {
      take(i);
      return entries;
    }
    --depth;
  }
  return {};  // never closed: cut off
}

}  // namespace

std::string source_function(const onnx::NodeProto& node) {
  // "['net.Model', 'torch.nn.modules.linear.Linear', 'aten.linear.default']"
  const std::vector<std::string> classes = quoted_entries(std::string(note(node, kClassesKey)));
  return classes.empty() ? "" : classes.back();
}

void set_source_function(onnx::NodeProto& node, std::string_view function) {
  set_note(node, kClassesKey, "['" + std::string(function) + "']");
}

std::vector<std::string> source_arguments(const onnx::NodeProto& node) {
  // "%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%p_weight, %x, 2), kwargs = {})"
  static constexpr std::string_view kArguments = "](args = (";
  const std::string_view call = note(node, kCallKey);
  const std::size_t at = call.find(kArguments);
  return at == std::string_view::npos ? std::vector<std::string>{} : entries_until_closed(call.substr(at + kArguments.size()));
}

void set_source_call(onnx::NodeProto& node, std::string_view function, const std::vector<std::string>& arguments) {
  set_source_function(node, function);
  set_note(
      node, kCallKey,
      "%result : call_function[target=torch.ops." + std::string(function) + "](args = (" + joined(arguments, ", ") + "), kwargs = {})");
}

bool stands_in_block(const onnx::NodeProto& node) {
  // such a block is a function of its own that torch.fx wrote: 'File "<eval_with_key>.12", line 5, in forward'
  return note(node, kStackKey).starts_with("File \"<eval_with_key>");
}

bool stands_in_own_function(const onnx::NodeProto& node) {
  // '    y = Rounded.apply(x)\n  File "net.py", line 5, in forward\n    return torch.round(x)'
  const std::string_view stack = note(node, kStackKey);
  for (std::size_t at = stack.find(".apply("); at != std::string_view::npos; at = stack.find(".apply(", at + 1)) {
    const std::size_t next = stack.find('\n', at);
    if (next == std::string_view::npos) return false;
    const std::string_view frame = stack.substr(next + 1, stack.find('\n', next + 1) - next - 1);
    const std::size_t line = stack.rfind('\n', at) + 1;
    if (frame.ends_with(", in forward") && stack.substr(line, at - line).find("CheckpointFunction") == std::string_view::npos) return true;
  }
  return false;
}

}  // namespace rehearsal::formats
