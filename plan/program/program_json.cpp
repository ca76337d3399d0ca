#include "plan/program/program_json.hpp"

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "plan/program/program_file_names.hpp"

namespace rehearsal::plan {

using Ordered = nlohmann::ordered_json;

Ordered program_file::axes_json(const Program& program) {
  auto list = Ordered::array();
  for (const auto& a : program.axes) list.push_back({{"name", a.name}, {"size", a.size}, {"stride", a.stride}});
  return list;
}

namespace {

using namespace program_file;

Ordered index_json(std::int64_t index) { return index < 0 ? Ordered() : Ordered(index); }

Ordered buffers_json(const std::vector<BufferIndex>& buffers) {
  auto list = Ordered::array();
  for (const auto b : buffers) list.push_back(b == kNoBuffer ? Ordered() : Ordered(b));
  return list;
}

Ordered buffer_json(const Buffer& b, const graph::Graph& g) {
  Ordered j{{"name", b.name},
            {"dtype", std::string(name(b.dtype))},
            {"shapes", b.shapes},
            {"format", text_of(kFormats, b.format)},
            {"category", std::string(name(b.category))},
            {"lifetime", text_of(kLifetimes, b.lifetime)},
            {"bytes", b.bytes},
            {"offset", b.offset}};
  if (b.tensor != graph::TensorId::None) j["tensor"] = g[b.tensor].name;
  if (b.part_of != kNoBuffer) j["part_of"] = b.part_of, j["part_offset"] = b.part_offset;
  if (b.versions > 1) j["versions"] = b.versions;
  if (b.version != WeightVersion::Delayed) j["version"] = text_of(kVersions, b.version);
  return j;
}

Ordered instruction_json(const Role& role, const Instruction& i, const graph::Graph& g) {
  Ordered j{{"kind", std::string(name(i.kind))}, {"stream", std::string(name(i.stream))}, {"phase", text_of(kPhases, i.phase)}};
  if (i.node != graph::NodeId::None) j["node"] = g[i.node].name, j["op"] = std::string(schema_of(role, i, g[i.node]).name);
  if (i.tensor != graph::TensorId::None) j["tensor"] = g[i.tensor].name;
  if (i.again) j["again"] = true;
  if (i.when != When::Always) j["when"] = text_of(kWhen, i.when);
  if (i.during != During::Training) j["during"] = text_of(kDuringNames, i.during);
  j["inputs"] = buffers_json(i.inputs);
  j["outputs"] = buffers_json(i.outputs);
  if (i.workspace != kNoBuffer) j["workspace"] = i.workspace;
  for (const auto& d : i.after) j["after"].push_back({d.body, d.instruction});
  const std::pair<const char*, std::int64_t> references[] = {
      {"kernel", i.kernel},         {"attributes", i.attributes},         {"message", i.message},
      {"collective", i.collective}, {"redistribution", i.redistribution}, {"axis", i.axis}};
  for (const auto& [key, index] : references)
    if (index >= 0) j[key] = index;
  return j;
}

Ordered kernel_json(const KernelInfo& k) {
  Ordered j{{"implementation", k.implementation}, {"workspace_bytes", k.workspace_bytes}};
  if (!k.op.empty()) j["op"] = k.op;
  for (const auto f : k.input_formats) j["input_formats"].push_back(text_of(kFormats, f));
  for (const auto f : k.output_formats) j["output_formats"].push_back(text_of(kFormats, f));
  return j;
}

Ordered dealt_json(const std::vector<DealtOut>& dealt) {
  auto list = Ordered::array();
  for (const auto& d : dealt) list.push_back({d.units, d.each});
  return list;
}

Ordered role_json(const Role& role, const graph::Graph& g) {
  Ordered j{{"stage", role.stage},
            {"arena_bytes", role.memory.arena_bytes},
            {"saved_stride", role.memory.saved_stride},
            {"in_flight", role.memory.in_flight},
            {"variant_samples", role.variant_samples}};
  for (const auto v : role.variant_of) j["variant_of"].push_back(v);
  for (const auto& b : role.buffers) j["buffers"].push_back(buffer_json(b, g));
  for (const auto& k : role.kernels) j["kernels"].push_back(kernel_json(k));
  j["messages"] = j["collectives"] = Ordered::array();
  for (const auto& m : role.messages) j["messages"].push_back({{"stage_offset", m.stage_offset}, {"channel", m.channel}});
  for (const auto& c : role.collectives) {
    j["collectives"].push_back({{"kind", std::string(name(c.kind))},
                                {"algorithm", c.algorithm},
                                {"axis", c.axis},
                                {"dealt", dealt_json(c.dealt)},
                                {"reduction", std::string(graph::name(c.reduction))},
                                {"redistribution", index_json(c.redistribution)}});
    if (c.center >= 0) j["collectives"].back()["center"] = c.center;
    if (c.received_behind) j["collectives"].back()["received_behind"] = true;
    if (c.root != 0) j["collectives"].back()["root"] = c.root;
    if (c.every > 1) j["collectives"].back()["every"] = c.every;
  }
  for (const auto& body : role.bodies) {
    auto list = Ordered::array();
    for (const auto& i : body.instructions) list.push_back(instruction_json(role, i, g));
    j["bodies"].push_back({{"kind", std::string(name(body.kind))}, {"chunk", body.chunk}});
    if (body.every > 1) j["bodies"].back()["first"] = body.first, j["bodies"].back()["every"] = body.every;
    j["bodies"].back()["instructions"] = std::move(list);
  }
  for (const auto& s : role.slots) j["slots"].push_back({s.body, s.micro_batch});
  for (const auto& s : role.opening) j["opening"].push_back({s.body, s.micro_batch});
  if (role.delay > 0) j["delay"] = role.delay;
  return j;
}

}  // namespace

void write_program_file(const std::string& path, const Program& program, const graph::Graph& g, const PlanContext& context) {
  auto of_program = context;
  of_program.model_hash = program.model_hash;
  of_program.batch = program.batch;
  Ordered document{{"schema", kProgramJsonSchema},  {"kind", "program"},           {"context", context_json(of_program)},
                   {"plan", to_text(program.plan)}, {"ranks", program.ranks},      {"micro_batches", program.micro_batches},
                   {"role_of", program.role_of},    {"warnings", program.warnings}};
  document["axes"] = axes_json(program);
  for (const auto& role : program.roles) document["roles"].push_back(role_json(role, g));
  write_file_atomically(path, document.dump(1, ' ', false, Ordered::error_handler_t::replace) + "\n");
}

}  // namespace rehearsal::plan
