#include "predict/frameworks/program_axes.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "predict/frameworks/groups.hpp"

namespace rehearsal::predict::frameworks {
namespace {

/// Axis of a program that a kind of exchange goes along; the longest run of axes that are all among `names`.
std::uint8_t axis_among(const plan::Program& program, const std::vector<std::string>& names) {
  std::size_t best = 0;
  int most = 0;
  for (std::size_t a = 0; a < program.axes.size(); ++a) {
    std::string rest = program.axes[a].name + ".";
    bool all = true;
    for (std::size_t dot = rest.find('.'); dot != std::string::npos; rest = rest.substr(dot + 1), dot = rest.find('.'))
      all = all && std::find(names.begin(), names.end(), rest.substr(0, dot)) != names.end();
    if (all && program.axes[a].size > most) most = program.axes[a].size, best = a;
  }
  return static_cast<std::uint8_t>(best);
}

}  // namespace

std::uint8_t ProgramAxes::replicas() const { return axis_among(program_, {"dp", "shard", "ep", "cp"}); }
std::uint8_t ProgramAxes::shards() const { return job_.plan.has_shard_groups() ? axis_among(program_, {"shard", "ep", "cp"}) : replicas(); }
std::uint8_t ProgramAxes::expert_copies() const {
  const auto names = axes_of_expert_copies(job_.plan);
  return axis_among(program_, {names.begin(), names.end()});
}
std::uint8_t ProgramAxes::copies() const { return axis_among(program_, {"dp"}); }

std::uint8_t ProgramAxes::of(ExchangeAxis axis) const {
  if (axis == ExchangeAxis::Expert && job_.plan.ep > job_.plan.expert_ranks()) {
    if (job_.plan.has_whole_experts()) return axis_among(program_, {"ep", "cp", "tp"});
    return axis_among(program_, {"ep", "cp"});
  }
  return axis_among(program_, {axis == ExchangeAxis::Tensor ? "tp" : axis == ExchangeAxis::Expert ? "ep" : "cp"});
}

}  // namespace rehearsal::predict::frameworks
