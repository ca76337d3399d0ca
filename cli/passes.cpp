#include "cli/passes.hpp"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/units.hpp"
#include "plan/describe.hpp"
#include "plan/lowering/role_passes.hpp"

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
std::vector<std::vector<PassesRow>> rows_of(const predict::Job& job, const plan::Plan& plan) {
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

}  // namespace

void print_passes(const predict::Job& job, const plan::Plan& plan, Terminal& terminal) {
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

void print_after(const predict::Job& job, const plan::Plan& plan, const std::string& pass, Terminal& terminal) {
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
