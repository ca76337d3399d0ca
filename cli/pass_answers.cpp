#include "cli/pass_answers.hpp"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/units.hpp"
#include "cli/text/printable.hpp"
#include "cli/text/text_table.hpp"
#include "cli/text/wrap.hpp"
#include "plan/lowering/role_passes.hpp"
#include "plan/program/describe.hpp"

namespace rehearsal::cli {
namespace {

struct PassesRow {
  std::string pass, leaves;
  int stage;
  std::size_t instructions, buffers, messages;
  std::int64_t arena_bytes;
};

PassesRow row_of(const plan::PassResult& result) {
  PassesRow row{std::string(result.pass),    std::string(result.leaves),    result.role.stage, 0, result.role.buffers.size(),
                result.role.messages.size(), result.role.memory.arena_bytes};
  for (const auto& body : result.role.bodies) row.instructions += body.instructions.size();
  row.messages += result.role.collectives.size();
  return row;
}

/// One list of rows a role, in the order in which roles are made.
std::vector<std::vector<PassesRow>> rows_of(const predict::Workload& job, const plan::Plan& plan) {
  std::vector<std::vector<PassesRow>> roles;
  static_cast<void>(predict::lower_for(job, plan, [&](const plan::PassResult& result) {
    if (result.pass == plan::role_passes().front().name) roles.emplace_back();
    roles.back().push_back(row_of(result));
  }));
  return roles;
}

nlohmann::ordered_json pass_json(const PassesRow& row) {
  return {{"pass", row.pass},       {"leaves", row.leaves},     {"instructions", row.instructions},
          {"buffers", row.buffers}, {"messages", row.messages}, {"arena_bytes", row.arena_bytes}};
}

void print_role(const std::vector<PassesRow>& rows, std::ostream& out) {
  std::size_t width = 0;
  for (const auto& pass : plan::role_passes()) width = std::max(width, pass.name.size());
  const auto name_width = static_cast<int>(width) + 2;
  out << std::left << std::setw(name_width) << "pass" << std::right << std::setw(13) << "instructions" << std::setw(9) << "buffers"
      << std::setw(10) << "messages"
      << "  leaves\n";
  for (const PassesRow& row : rows)
    out << std::left << std::setw(name_width) << row.pass << std::right << std::setw(13) << row.instructions << std::setw(9) << row.buffers
        << std::setw(10) << row.messages << "  " << row.leaves
        << (row.arena_bytes > 0 ? " (" + to_text(Bytes(static_cast<double>(row.arena_bytes))) + ")" : "") << "\n";
}

constexpr std::size_t kNamedChanges = 3;  ///< of one kind, in text

nlohmann::ordered_json import_pass_json(const formats::ImportPassResult& pass, const formats::ImportPassResult& before) {
  auto changes = nlohmann::ordered_json::array();
  for (const auto& change : pass.changes) changes.push_back({{"what", change.what}, {"name", change.name}, {"detail", change.detail}});
  return {{"pass", pass.pass},
          {"takes", pass.takes},
          {"leaves", pass.leaves},
          {"of", pass.of_file ? "file" : "graph"},
          {"nodes_before", before.nodes},
          {"nodes", pass.nodes},
          {"tensors_before", before.tensors},
          {"tensors", pass.tensors},
          {"changes", changes}};
}

/// "folded 14: Shape_1, Shape_2, Gather_7, ..."; a line a kind of change, in the order in which they came first.
std::vector<std::string> lines_of(const std::vector<formats::ImportChange>& changes) {
  std::vector<std::pair<std::string_view, std::vector<std::string>>> kinds;
  for (const auto& change : changes) {
    auto kind = std::ranges::find(kinds, change.what, [](const auto& k) { return k.first; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {change.what, {}});
    kind->second.push_back(change.name + (change.detail.empty() ? "" : " (" + change.detail + ")"));
  }
  std::vector<std::string> lines;
  for (const auto& [what, names] : kinds) {
    const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamedChanges)));
    lines.push_back(std::string(what) + " " + std::to_string(names.size()) + ": " + joined(first, ", ") +
                    (names.size() > kNamedChanges ? ", ..." : ""));
  }
  return lines;
}

}  // namespace

void print_import_passes(std::span<const formats::ImportPassResult> passes, std::ostream& out) {
  const std::size_t columns = window_columns();
  TextTable table{{"pass", "of the", "nodes", "tensors", "leaves"}, {}};
  for (const auto& pass : passes)
    table.rows.push_back({{std::string(pass.pass), true},
                          {pass.of_file ? "file" : "graph"},
                          {std::to_string(pass.nodes)},
                          {std::to_string(pass.tensors)},
                          {std::string(pass.leaves), true}});
  out << to_text(table, 0, columns);
  for (const auto& pass : passes) {
    if (pass.changes.empty()) continue;
    out << "\n" << pass.pass << "\n";
    for (const auto& line : lines_of(pass.changes)) out << "  " << hanging(printable(line, false), 4, columns) << "\n";
  }
}

nlohmann::ordered_json import_passes_json(std::span<const formats::ImportPassResult> passes) {
  auto list = nlohmann::ordered_json::array();
  for (std::size_t p = 0; p < passes.size(); ++p)
    list.push_back(import_pass_json(passes[p], p == 0 ? formats::ImportPassResult{} : passes[p - 1]));
  return list;
}

void print_passes(const predict::Workload& job, const plan::Plan& plan, Terminal& terminal) {
  const auto roles = rows_of(job, plan);
  if (terminal.json()) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& rows : roles) {
      auto passes = nlohmann::ordered_json::array();
      for (const PassesRow& row : rows) passes.push_back(pass_json(row));
      list.push_back({{"stage", rows.front().stage}, {"passes", passes}});
    }
    return terminal.print({{"schema", 1}, {"plan", plan::to_text(plan)}, {"roles", list}});
  }
  for (std::size_t r = 0; r < roles.size(); ++r) {
    terminal.out() << "role " << r << ", stage " << roles[r].front().stage << "\n";
    print_role(roles[r], terminal.out());
  }
  terminal.out() << "--after PASS shows every instruction behind a pass\n";
}

void print_after(const predict::Workload& job, const plan::Plan& plan, const std::string& pass, Terminal& terminal) {
  const auto known = known_name("--after", pass, names_of_rows(plan::role_passes(), &plan::RolePass::name));
  bool ran = false;
  static_cast<void>(predict::lower_for(job, plan, [&](const plan::PassResult& result) {
    if (result.pass != known) return;
    ran = true;
    terminal.out() << plan::to_text(result.program, result.role, job.training.graph);
  }));
  if (!ran)
    throw Refusal("--after: the pass '" + pass + "' has nothing to do for " + plan::to_text(plan) + "; --passes lists those that have");
}

}  // namespace rehearsal::cli
