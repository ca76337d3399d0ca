#include "tests/plan/lowering/written_program.hpp"

#include <map>
#include <sstream>

#include "plan/lowering/lowering.hpp"
#include "plan/program/describe.hpp"
#include "tests/written_out.hpp"

namespace rehearsal::plan::test {
namespace {

/// Bytes by category, and buffers of which there is more to say than instructions say of those that they touch.
std::string buffers_of(const Role& role) {
  std::ostringstream text;
  std::map<std::string, std::int64_t> sums;
  for (const auto& b : role.buffers) {
    std::ostringstream more;
    for (std::size_t v = 1; v < b.shapes.size(); ++v)
      if (b.shapes[v] != b.shapes.front()) more << ", or " << graph::to_text(b.shapes[v]);
    if (b.part_of != kNoBuffer) more << ", in " << role.buffers[b.part_of].name << " from " << b.part_offset;
    if (b.sent) more << ", kept until sent";
    if (b.on_host) more << ", on the host";
    if (b.common) more << ", the same on all replicas";
    if (b.versions > 1) more << ", " << b.versions << " versions";
    if (!more.str().empty()) text << "  " << b.name << more.str() << "\n";
    if (b.part_of == kNoBuffer) sums[std::string(name(b.category)) + ", " + std::string(name(b.dtype))] += b.bytes;
  }
  for (const auto& [what, bytes] : sums) text << "  " << what << ": " << bytes << " B\n";
  return text.str();
}

/// What there is to say of a collective beside its kind, where it is not as usual.
std::string remarks(const CollectiveInfo& info) {
  std::ostringstream text;
  for (const auto& d : info.dealt) text << ", " << d.units << " x " << d.each;
  if (info.reduction == graph::LabelKind::LogSumExp) text << ", of exponentials";
  if (info.every > 1) text << ", every " << info.every << " steps";
  if (info.center >= 0) text << ", vector " << info.center << " of the center";
  if (info.received_behind) text << ", in two halves";
  return text.str();
}

std::string collectives_of(const Program& program, const Role& role) {
  std::ostringstream text;
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions)
      if (i.kind == InstructionKind::Collective)
        text << "  " << describe(program, role, i, graph::Graph()) << ", " << message_bytes(role, i, 0) << " B"
             << remarks(role.collectives[static_cast<std::size_t>(i.collective)]) << "\n";
  return text.str();
}

/// Kernels whose attributes are not those of their nodes, and scratch memory.
std::string kernels_of(const Program& program, const Role& role, const graph::Graph& g) {
  std::ostringstream text;
  for (const auto& body : role.bodies)
    for (std::size_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      const auto attributes = i.attributes < 0 ? std::string() : role.attributes[static_cast<std::size_t>(i.attributes)].to_text();
      const bool has_workspace = i.workspace != kNoBuffer;
      if (attributes.empty() && !has_workspace) continue;
      text << "  " << name(body.kind) << " " << n << " " << describe(program, role, i, g) << ": " << attributes;
      if (has_workspace) text << " workspace of " << role.buffers[i.workspace].bytes << " B @" << role.buffers[i.workspace].offset;
      text << "\n";
    }
  return text.str();
}

std::string pieces(const std::vector<PackedBlock>& blocks, const char* way) {
  std::ostringstream text;
  for (const auto& b : blocks) text << ", " << way << " " << b.peer << ": " << b.count << " at " << b.offset;
  return text.str();
}

/// "R", "S0", "S1.2", "P"
std::string axis_text(const AxisLayout& l) {
  if (l.replicated()) return "R";
  if (l.partial() && l.reduction == graph::LabelKind::Sum) return "P";
  if (l.partial()) return "P(" + std::string(graph::name(l.reduction)) + ")";
  return "S" + std::to_string(l.dim) + (l.factor ? "." + std::to_string(l.factor) : "") + (l.halo ? "+halo" : "");
}

std::string layout_text(const Layout& layout) {
  std::string text;
  for (const auto& axis : layout) text += (text.empty() ? "" : " ") + axis_text(axis);
  return text;
}

/// Instructions that pack, send or unpack by the n-th redistribution.
std::string users_of(const Role& role, std::size_t n) {
  std::string text;
  for (std::size_t b = 0; b < role.bodies.size(); ++b)
    for (std::size_t i = 0; i < role.bodies[b].instructions.size(); ++i)
      if (role.bodies[b].instructions[i].redistribution == static_cast<int>(n))
        text += " " + std::string(name(role.bodies[b].kind)) + std::to_string(b) + "." + std::to_string(i);
  return text;
}

/// Which elements of its vector a rank of the role has from where, and what moves them.
std::string redistributions_of(const Program& program, std::size_t role) {
  std::ostringstream text;
  const auto rank = std::ranges::find(program.role_of, static_cast<std::uint32_t>(role)) - program.role_of.begin();
  const auto at = position(program, static_cast<int>(rank), 0);
  const auto& list = program.roles[role].redistributions;
  for (std::size_t n = 0; n < list.size(); ++n) {
    const auto& r = list[n];
    const auto packing = packing_of(*program.sharding, list, n, at);
    text << "  " << name(r.kind) << " of " << program.sharding->dims->graph()[r.tensor].name << " over "
         << program.sharding->axes[r.axis].name << ", " << layout_text(r.from) << " -> " << layout_text(r.to)
         << pieces(packing.packed, "to") << pieces(packing.unpacked, "from") << ":" << users_of(program.roles[role], n) << "\n";
  }
  return text.str();
}

/// Of every body: how many of its instructions belong to a pass of the model, which is not always the body's own.
std::string phases_of(const Role& role) {
  constexpr std::string_view kPhases[] = {"forward", "backward", "update"};
  std::string text;
  for (const auto& body : role.bodies)
    for (std::size_t p = 0; p < std::size(kPhases); ++p)
      if (const auto count = std::ranges::count(body.instructions, static_cast<graph::Phase>(p), &Instruction::phase); count > 0)
        text += (text.empty() ? " phases " : ", ") + std::string(name(body.kind)) + ": " + std::to_string(count) + " " +
                std::string(kPhases[p]);
  return text.empty() ? text : text + "\n";
}

std::string slots_of(const Role& role) {
  std::ostringstream text;
  for (const auto* slots : {&role.opening, &role.slots}) {
    if (slots->empty()) continue;
    text << (slots == &role.opening ? "\n before the first step\n " : "\n slots\n ");
    for (const auto& slot : *slots) text << " " << name(role.bodies[slot.body].kind) << slot.body << "/" << slot.micro_batch;
  }
  return text.str();
}

std::string memory_of(const Role& role) {
  const auto& m = role.memory;
  std::ostringstream text;
  text << " memory " << m.arena_bytes << " B, at least " << m.lower_bound_bytes << " B";
  if (m.in_flight > 1) text << ", " << m.saved_stride << " B for a micro-batch";
  if (m.host_bytes > 0) text << ", on the host " << m.host_bytes << " B";
  if (m.host_saved_stride > 0) text << ", " << m.host_saved_stride << " B for a micro-batch";
  for (std::size_t c = 0; c < m.by_category.size(); ++c)
    if (m.by_category[c] > 0) text << ", " << name(static_cast<MemoryCategory>(c)) << " " << m.by_category[c] << " B";
  return text.str() + "\n";
}

/// Between the first and the last role of a stage others differ from both in where their blocks begin.
bool says_nothing_new(const std::vector<Role>& roles, std::size_t role) {
  const auto of_stage = [&](const Role& other) { return other.stage == roles[role].stage; };
  const auto at = roles.begin() + static_cast<std::ptrdiff_t>(role);
  return std::any_of(roles.begin(), at, of_stage) && std::any_of(at + 1, roles.end(), of_stage);
}

void add_section(std::ostringstream& text, const char* title, const std::string& lines) {
  if (!lines.empty()) text << " " << title << "\n" << lines;
}

}  // namespace

std::string text_of(const Program& program, const graph::Graph& g) {
  std::ostringstream text;
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    if (says_nothing_new(program.roles, r)) continue;
    const auto& role = program.roles[r];
    text << "\nrole " << r << ": " << to_text(program, role, g) << slots_of(role).substr(1) << "\n";
    add_section(text, "collectives", collectives_of(program, role));
    add_section(text, "kernels with attributes or memory of their own", kernels_of(program, role, g));
    add_section(text, "redistributions", redistributions_of(program, r));
    add_section(text, "buffers", buffers_of(role));
    text << phases_of(role) << memory_of(role);
  }
  for (const auto& warning : program.warnings) text << "\nwarning: " << warning << "\n";
  return text.str();
}

void check_written_program(const WrittenPlan& written) {
  const std::string how = written.how;
  const auto training = written_training(written.model, written.plan, how);
  const ChoosyBackend choosy;
  const TableBackend table(how.find("fused") != std::string::npos);
  const Backend& backend = how.find("choosy") != std::string::npos ? static_cast<const Backend&>(choosy) : table;
  LoweringOptions options;
  if (how.find("buckets") != std::string::npos) options.bucket_bytes = 400;
  auto program = lower(training, parse_plan(written.plan), backend, options);
  if (how.find("alone") != std::string::npos) program.roles.resize(1);
  const auto text =
      std::string(written.model) + " under " + written.plan + (how.empty() ? "" : ", " + how) + "\n" + text_of(program, training.graph);
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/" + written.file + ".txt", text);
}

}  // namespace rehearsal::plan::test
