#include <algorithm>
#include <fstream>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "plan/program/operands_fault.hpp"
#include "plan/program/program_file_names.hpp"
#include "plan/program/program_json.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::plan {
namespace {

using namespace program_file;
using nlohmann::json;

/// Positions of names in a graph.
struct Names {
  std::unordered_map<std::string, graph::NodeId> nodes;
  const graph::Graph& g;
  explicit Names(const graph::Graph& graph) : g(graph) {
    for (std::size_t n = 0; n < g.nodes().size(); ++n) nodes.emplace(g.nodes()[n].name, static_cast<graph::NodeId>(n));
  }
};

/// One object of the file, which says in refusals where it stands.
class ProgramJsonEntry {
 public:
  ProgramJsonEntry(const json& value, std::string where) : value_(&value), where_(std::move(where)) {
    if (!value.is_object()) refuse("must be an object");
  }
  [[noreturn]] void refuse(const std::string& what) const { throw BadInput(where_, what); }
  [[nodiscard]] bool has(const char* key) const { return value_->contains(key); }
  void only(std::initializer_list<std::string_view> keys) const {
    for (const auto& item : value_->items())
      if (std::ranges::find(keys, item.key()) == keys.end()) refuse("there is no key \"" + item.key() + "\"");
  }

  template <class T>
  [[nodiscard]] T get(const char* key) const {
    if (!has(key)) refuse(std::string(key) + " is missing");
    return convert<T>(value_->at(key), key);
  }
  template <class T>
  [[nodiscard]] T get_or(const char* key, T otherwise) const {
    return has(key) && !value_->at(key).is_null() ? convert<T>(value_->at(key), key) : std::move(otherwise);
  }
  [[nodiscard]] std::int64_t not_negative(const char* key) const {
    const auto value = get<std::int64_t>(key);
    if (value < 0) refuse(std::string(key) + " is " + std::to_string(value) + "; it must not be negative");
    return value;
  }
  /// What the file says must be what the plan gives this model.
  template <class T>
  void must_be(const char* key, const T& planned) const {
    if (get<T>(key) != planned)
      refuse(std::string(key) + " is " + value_->at(key).dump().substr(0, 60) + "; the plan gives " + json(planned).dump());
  }
  /// Index of a name among those of an enumeration.
  template <class Enum>
  [[nodiscard]] Enum one_of(const char* key, const auto& names) const {
    const auto text = get<std::string>(key);
    std::string known;
    for (std::size_t n = 0; n < std::size(names); ++n) {
      if (names[n] == text) return static_cast<Enum>(n);
      known += (known.empty() ? "" : ", ") + std::string(names[n]);
    }
    refuse(std::string(key) + " is \"" + text + "\"; it must be one of " + known);
  }
  /// An index below `count`; -1 where there is none.
  [[nodiscard]] std::int32_t reference(const char* key, std::size_t count) const {
    const auto index = get_or<std::int64_t>(key, -1);
    if (index >= static_cast<std::int64_t>(count) || index < -1)
      refuse(std::string(key) + " is " + std::to_string(index) + ", but there are " + std::to_string(count));
    return static_cast<std::int32_t>(index);
  }
  [[nodiscard]] std::vector<ProgramJsonEntry> entries(const char* key) const {
    std::vector<ProgramJsonEntry> list;
    if (!has(key)) return list;
    const auto& values = value_->at(key);
    if (!values.is_array()) refuse(std::string(key) + " must be a list");
    for (std::size_t n = 0; n < values.size(); ++n) list.emplace_back(values[n], where_ + "." + key + "[" + std::to_string(n) + "]");
    return list;
  }
  [[nodiscard]] const json& raw(const char* key) const { return value_->at(key); }

 private:
  template <class T>
  [[nodiscard]] T convert(const json& value, const char* key) const {
    try {
      return value.get<T>();
    } catch (const json::exception&) {
      refuse(std::string(key) + " is of the wrong kind: " + value.dump().substr(0, 40));
    }
  }

  const json* value_;
  std::string where_;
};

template <std::size_t... N>
auto names_of_kinds(std::index_sequence<N...>, auto enumerate) {
  return std::array<std::string_view, sizeof...(N)>{enumerate(N)...};
}
template <class Enum, std::size_t Count>
const auto& names_of() {
  static const auto kNames = names_of_kinds(std::make_index_sequence<Count>(), [](std::size_t n) { return name(static_cast<Enum>(n)); });
  return kNames;
}

graph::TensorId tensor_of(const ProgramJsonEntry& e, const Names& names) {
  if (!e.has("tensor")) return graph::TensorId::None;
  const auto text = e.get<std::string>("tensor");
  const auto t = names.g.find(text);
  if (t == graph::TensorId::None) e.refuse("the model has no tensor \"" + text + "\"");
  return t;
}

/// Reads one role over the one that the plan makes.
class RoleReader {
 public:
  RoleReader(const ProgramJsonEntry& entry, Role& role, const Program& program, const Names& names)
      : entry_(entry), role_(role), program_(program), names_(names) {}

  void read() {
    entry_.only({"stage", "arena_bytes", "saved_stride", "in_flight", "variant_samples", "variant_of", "buffers", "kernels", "messages",
                 "collectives", "bodies", "slots", "opening", "delay"});
    entry_.must_be("stage", role_.stage);
    entry_.must_be("variant_samples", role_.variant_samples);
    entry_.must_be("variant_of", role_.variant_of);
    role_.memory.arena_bytes = entry_.not_negative("arena_bytes");
    role_.memory.in_flight = static_cast<std::int32_t>(entry_.not_negative("in_flight"));
    role_.memory.saved_stride = entry_.not_negative("saved_stride");
    read_buffers();
    read_kernels();
    read_communication();
    read_bodies();
    if (entry_.has("delay") || role_.delay != 0) entry_.must_be("delay", role_.delay);
    read_slots(entry_.get<std::vector<std::pair<std::uint16_t, std::int32_t>>>("slots"), role_.slots);
    read_slots(entry_.get_or<std::vector<std::pair<std::uint16_t, std::int32_t>>>("opening", {}), role_.opening);
  }

 private:
  void read_buffers() {
    const auto entries = entry_.entries("buffers");
    if (entries.size() != role_.buffers.size())
      entry_.refuse("has " + std::to_string(entries.size()) + " buffers, the plan's role " + std::to_string(role_.buffers.size()));
    for (std::size_t n = 0; n < entries.size(); ++n) {
      auto& b = role_.buffers[n];
      const auto& e = entries[n];
      e.only({"name", "dtype", "shapes", "format", "category", "lifetime", "bytes", "offset", "tensor", "part_of", "part_offset",
              "versions", "version"});
      b.name = e.get<std::string>("name");
      const auto shapes = e.get<std::vector<graph::Shape>>("shapes");
      if (shapes.size() != b.shapes.size()) e.refuse("shapes are of " + std::to_string(shapes.size()) + " micro-batch sizes");
      b.shapes = shapes;
      const auto type = dtype_from_name(e.get<std::string>("dtype"));
      if (!type) e.refuse("dtype is not known");
      b.dtype = *type;
      b.format = e.one_of<Format>("format", kFormats);
      b.bytes = e.not_negative("bytes");
      b.offset = e.not_negative("offset");
    }
  }

  void read_kernels() {
    const auto entries = entry_.entries("kernels");
    role_.kernels.clear();
    for (const auto& e : entries) {
      e.only({"implementation", "workspace_bytes", "op", "input_formats", "output_formats"});
      KernelInfo k{e.get<std::string>("implementation"), {}, {}, e.not_negative("workspace_bytes"), e.get_or<std::string>("op", {})};
      if (!k.op.empty() && !graph::find_op(k.op)) e.refuse("there is no operator \"" + k.op + "\"");
      for (const auto& f : e.get_or<std::vector<std::string>>("input_formats", {})) k.input_formats.push_back(format_of(e, f));
      for (const auto& f : e.get_or<std::vector<std::string>>("output_formats", {})) k.output_formats.push_back(format_of(e, f));
      role_.kernels.push_back(std::move(k));
    }
  }
  static Format format_of(const ProgramJsonEntry& e, const std::string& text) {
    const auto at = std::find(kFormats.begin(), kFormats.end(), text);
    if (at == kFormats.end()) e.refuse("there is no format \"" + text + "\"");
    return static_cast<Format>(at - kFormats.begin());
  }

  void read_communication() {
    role_.messages.clear();
    for (const auto& e : entry_.entries("messages")) {
      e.only({"stage_offset", "channel"});
      role_.messages.push_back({e.get<std::int32_t>("stage_offset"), static_cast<std::uint32_t>(e.not_negative("channel"))});
    }
    role_.collectives.clear();
    for (const auto& e : entry_.entries("collectives")) {
      e.only({"kind", "algorithm", "axis", "dealt", "reduction", "redistribution", "received_behind", "center", "root", "every"});
      CollectiveInfo c;
      c.kind = e.one_of<CollectiveKind>("kind", names_of<CollectiveKind, kCollectiveKinds>());
      c.algorithm = e.get<std::string>("algorithm");
      c.axis = static_cast<std::uint8_t>(std::max(0, e.reference("axis", program_.axes.size())));
      c.dealt = dealt_of(e);
      c.reduction = e.one_of<graph::LabelKind>("reduction", kReductions);
      c.redistribution = e.reference("redistribution", role_.redistributions.size());
      c.center = e.get_or<std::int32_t>("center", -1);
      c.root = e.get_or<std::int32_t>("root", 0);
      c.every = e.get_or<std::int32_t>("every", 1);
      if (c.root < 0 || c.root >= program_.axes[c.axis].size)
        e.refuse("root is a rank of " + program_.axes[c.axis].name + ", below " + std::to_string(program_.axes[c.axis].size));
      if (c.root != 0 && c.kind != CollectiveKind::Broadcast && c.kind != CollectiveKind::Reduce)
        e.refuse("root is of a broadcast or a reduce");
      if (c.every < 1) e.refuse("every is a number of steps, from 1 on");
      c.received_behind = e.get_or<bool>("received_behind", false);
      if (c.received_behind && c.kind != CollectiveKind::AllToAll) e.refuse("received_behind is of an all-to-all");
      role_.collectives.push_back(std::move(c));
    }
  }

  static std::vector<DealtOut> dealt_of(const ProgramJsonEntry& e) {
    constexpr std::int64_t kMost = std::int64_t{1} << 50;  // elements: all of them together are still a number
    std::vector<DealtOut> dealt;
    std::int64_t left = kMost;
    for (const auto& [units, each] : e.get<std::vector<std::pair<std::int64_t, std::int64_t>>>("dealt")) {
      if (units < 1 || each < 1 || units > left / each) e.refuse("dealt is a list of [units, elements of each], numbers from 1 on");
      left -= units * each;
      dealt.push_back({units, each});
    }
    return dealt;
  }

  void read_bodies() {
    role_.bodies.clear();
    const auto entries = entry_.entries("bodies");
    for (const auto& e : entries) {
      e.only({"kind", "chunk", "first", "every", "instructions"});
      Body body{e.one_of<BodyKind>("kind", names_of<BodyKind, 4>()), static_cast<std::uint16_t>(e.not_negative("chunk")), {}};
      body.first = e.get_or<std::int32_t>("first", 0);
      body.every = e.get_or<std::int32_t>("every", 1);
      if (body.every < 1 || body.first < 0 || body.first >= body.every)
        e.refuse("first and every are not those of a share of micro-batches");
      for (const auto& i : e.entries("instructions")) body.instructions.push_back(instruction(i));
      role_.bodies.push_back(std::move(body));
    }
    for (std::size_t b = 0; b < entries.size(); ++b)
      for (const auto& i : role_.bodies[b].instructions)
        for (const auto& d : i.after)
          if (d.body >= role_.bodies.size() || d.instruction >= role_.bodies[d.body].instructions.size())
            entries[b].refuse("an instruction waits for one that is not there: [" + std::to_string(d.body) + ", " +
                              std::to_string(d.instruction) + "]");
  }

  Instruction instruction(const ProgramJsonEntry& e) {
    e.only({"kind", "stream", "phase", "node", "op", "tensor", "again", "when", "during", "inputs", "outputs", "workspace", "after",
            "kernel", "attributes", "message", "collective", "redistribution", "axis"});
    Instruction i;
    i.kind = e.one_of<InstructionKind>("kind", names_of<InstructionKind, kInstructionKinds>());
    i.stream = e.one_of<Stream>("stream", names_of<Stream, static_cast<int>(Stream::Count)>());
    i.phase = e.one_of<graph::Phase>("phase", kPhases);
    if (e.has("when")) i.when = e.one_of<When>("when", kWhen);
    if (e.has("during")) i.during = e.one_of<During>("during", kDuringNames);
    i.again = e.get_or<bool>("again", false);
    i.tensor = tensor_of(e, names_);
    i.inputs = buffers(e, "inputs");
    i.outputs = buffers(e, "outputs");
    const auto workspace = e.reference("workspace", role_.buffers.size());
    i.workspace = workspace < 0 ? kNoBuffer : static_cast<BufferIndex>(workspace);
    for (const auto& [body, at] : e.get_or<std::vector<std::pair<std::uint16_t, std::uint32_t>>>("after", {}))
      i.after.push_back({body, at});
    i.kernel = e.reference("kernel", role_.kernels.size());
    i.attributes = e.reference("attributes", role_.attributes.size());
    i.message = e.reference("message", role_.messages.size());
    i.collective = e.reference("collective", role_.collectives.size());
    i.redistribution = e.reference("redistribution", role_.redistributions.size());
    i.axis = static_cast<std::int8_t>(e.reference("axis", program_.sharding->axes.size()));
    require_parts(e, i);
    return i;
  }

  void require_parts(const ProgramJsonEntry& e, Instruction& i) {
    const bool message = i.kind == InstructionKind::Send || i.kind == InstructionKind::Receive;
    if (i.kind == InstructionKind::Kernel) {
      const auto node = names_.nodes.find(e.get<std::string>("node"));
      if (node == names_.nodes.end()) e.refuse("the model has no such node");
      i.node = node->second;
      if (i.kernel < 0) e.refuse("kernel is missing");
      if (i.collective >= 0 && role_.collectives[static_cast<std::size_t>(i.collective)].kind != CollectiveKind::Broadcast)
        e.refuse("collective of a kernel is the broadcast of what one rank makes for all");
    }
    if (message && i.message < 0) e.refuse("message is missing");
    if (i.kind == InstructionKind::Collective) require_collective(e, i);
    if (i.inputs.empty() && i.outputs.empty()) e.refuse("an instruction reads or writes something");
    const bool reads = i.kind == InstructionKind::Send || i.kind == InstructionKind::Report;
    if (!reads && (i.outputs.empty() || i.outputs.front() == kNoBuffer) && i.kind != InstructionKind::Kernel)
      e.refuse("outputs are missing");
    if (const auto fault = operands_fault(program_, role_, i, names_.g); !fault.empty()) e.refuse(fault);
  }

  [[nodiscard]] bool names_step(const Instruction& i) const {
    if (i.inputs.size() != 2 || i.inputs[1] == kNoBuffer) return false;
    const auto& step = role_.buffers[i.inputs[1]];
    return step.dtype == DType::I64 && graph::element_count(step.shapes.front()) == 1;
  }

  void require_collective(const ProgramJsonEntry& e, const Instruction& i) const {
    if (i.collective < 0) e.refuse("collective is missing");
    if (i.during == During::Renewals && !names_step(i)) e.refuse("inputs[1] is the number of the step, one i64, that says when it runs");
    const auto& dealt = role_.collectives[static_cast<std::size_t>(i.collective)].dealt;
    const auto whole = begin_of_part(dealt, 1, 1);
    if (dealt.empty() || i.outputs.empty() || i.outputs.front() == kNoBuffer) return;
    for (const auto& shape : role_.buffers[i.outputs.front()].shapes)
      if (graph::element_count(shape) % whole != 0)
        e.refuse("its vector has " + std::to_string(graph::element_count(shape)) + " elements, of which " + std::to_string(whole) +
                 " are sharded");
  }

  std::vector<BufferIndex> buffers(const ProgramJsonEntry& e, const char* key) const {
    std::vector<BufferIndex> list;
    for (const auto& b : e.get<std::vector<json>>(key)) {
      const bool none = b.is_null();
      if (!none && (!b.is_number_unsigned() || b.get<std::uint64_t>() >= role_.buffers.size()))
        e.refuse(std::string(key) + " names a buffer that is not there: " + b.dump());
      list.push_back(none ? kNoBuffer : b.get<BufferIndex>());
    }
    return list;
  }

  /// Forward passes may be of the steps that follow, as far as the plan's own run ahead.
  void read_slots(const std::vector<std::pair<std::uint16_t, std::int32_t>>& entries, std::vector<Slot>& slots) {
    const auto ahead = static_cast<std::int32_t>(role_.opening.size());
    slots.clear();
    for (const auto& [body, micro_batch] : entries) {
      const bool forward = body < role_.bodies.size() && role_.bodies[body].kind == BodyKind::Forward;
      if (body >= role_.bodies.size() || micro_batch < 0 || micro_batch >= program_.micro_batches + (forward ? ahead : 0))
        entry_.refuse("a slot is [body, micro-batch]: there is no [" + std::to_string(body) + ", " + std::to_string(micro_batch) + "]");
      slots.push_back({body, micro_batch});
    }
  }

  const ProgramJsonEntry& entry_;
  Role& role_;
  const Program& program_;
  const Names& names_;
};

void require_same_plan(const ProgramJsonEntry& top, const Program& lowered) {
  top.only({"schema", "kind", "context", "plan", "ranks", "micro_batches", "role_of", "warnings", "axes", "roles"});
  top.must_be("ranks", lowered.ranks);
  top.must_be("micro_batches", lowered.micro_batches);
  const auto axes = json(axes_json(lowered));
  const auto given = top.get_or<json>("axes", json::array());
  if (given != axes) top.refuse("axes are " + given.dump() + "; the plan gives " + axes.dump());
}

}  // namespace

bool is_program_file(const std::string& path) {
  if (!path.ends_with(".json")) return false;
  std::ifstream in(path);
  std::string head(200, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find("\"kind\": \"program\"") != std::string::npos;
}

PlanFile read_program_heading(const std::string& path) {
  const json document = platforms::read_json_file(path);
  const ProgramJsonEntry top(document, path);
  if (top.get<int>("schema") != kProgramJsonSchema || top.get<std::string>("kind") != "program")
    top.refuse("is no Program of schema 1, as `rehearse explain --json` writes it");
  if (!top.has("context")) top.refuse("context is missing");
  PlanFile file;
  file.plan = parse_plan(top.get<std::string>("plan"));
  file.context = read_context(top.raw("context"), path);
  return file;
}

Program read_program_file(const std::string& path, Program lowered, const graph::Graph& g) {
  const json document = platforms::read_json_file(path);
  const ProgramJsonEntry top(document, path);
  require_same_plan(top, lowered);
  const auto entries = top.entries("roles");
  if (entries.size() != lowered.roles.size() || top.get<std::vector<std::uint32_t>>("role_of") != lowered.role_of)
    top.refuse("its roles are not those that the plan gives to ranks of this model and platform; export it again");
  const Names names(g);
  for (std::size_t r = 0; r < entries.size(); ++r) RoleReader(entries[r], lowered.roles[r], lowered, names).read();
  return lowered;
}

}  // namespace rehearsal::plan
