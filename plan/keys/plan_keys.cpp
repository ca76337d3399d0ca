#include "plan/plan_keys.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "plan/batch_shares.hpp"
#include "plan/collectives/collective.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::plan {
namespace {

std::int64_t whole_number(const std::string& text, std::int64_t low, std::int64_t high) {
  const auto value = parse_number<std::int64_t>(text);
  if (value && *value >= low && *value <= high) return *value;
  const std::string hint = text.find_first_of("; ") != std::string::npos ? "; keys are separated by commas" : "";
  throw BadInput("must be a whole number from " + std::to_string(low) + " to " + std::to_string(high) + hint);
}

std::string one_of(const std::string& value, std::span<const std::string_view> names) {
  const Names known(names.begin(), names.end());
  if (const auto found = find_name(value, known)) return std::string(*found);
  throw BadInput("must be one of " + joined(names) + (nearest_name(value, known) ? suggestion(value, known) : ""));
}

bool means(const std::string& value, std::string_view name) { return find_name(value, {name}).has_value(); }

constexpr std::int64_t kMostSteps = std::numeric_limits<std::int32_t>::max();

template <auto member, std::int64_t low = 1, std::int64_t high = kMostRanks>
void parse_whole(Plan& plan, const std::string& value) {
  plan.*member = static_cast<std::remove_reference_t<decltype(plan.*member)>>(whole_number(value, low, high));
}

template <bool Plan::*member>
void parse_switch(Plan& plan, const std::string& value) {
  static constexpr std::array<std::string_view, 2> kNames{"on", "off"};
  plan.*member = one_of(value, kNames) == "on";
}

/// The name of a row of a table.
template <std::string Plan::*member, std::vector<std::string_view> (*names)()>
void parse_row(Plan& plan, const std::string& value) {
  plan.*member = one_of(value, names());
}

template <auto member>
void parse_choice(Plan& plan, const std::string& value) {
  plan.*member = choice_named<std::remove_reference_t<decltype(plan.*member)>>(value);
}

/// `read` knows how it is written.
template <auto member, auto read>
void parse_with(Plan& plan, const std::string& value) {
  plan.*member = read(value);
}

template <auto member>
std::string print(const Plan& plan) {
  const auto& value = plan.*member;
  using Value = std::remove_cvref_t<decltype(value)>;
  if constexpr (std::is_same_v<Value, bool>)
    return value ? "on" : "off";
  else if constexpr (std::is_integral_v<Value>)
    return std::to_string(value);
  else if constexpr (std::is_enum_v<Value>)
    return std::string(name(value));
  else if constexpr (std::is_same_v<Value, std::vector<std::string>>)
    return text_of_names(value);
  else if constexpr (std::is_same_v<Value, std::string>)
    return value;
  else
    return to_text(value);
}

constexpr std::string_view kAllReplicas = "all";
void parse_zero_group(Plan& plan, const std::string& value) {
  const bool all = means(value, kAllReplicas);
  if (!all && !parse_number<std::int64_t>(value)) throw BadInput("must be a number of replicas that divides dp, or all");
  plan.zero_group = all ? 0 : static_cast<int>(whole_number(value, 1, kMostRanks));
}
std::string print_zero_group(const Plan& plan) {
  return plan.zero_group == 0 ? std::string(kAllReplicas) : std::to_string(plan.zero_group);
}

constexpr std::string_view kListed = "listed";
constexpr std::string_view kNone = "none", kAny = "any";
void parse_staleness(Plan& plan, const std::string& value) {
  plan.staleness.reset();
  if (means(value, kNone)) return;
  const bool any = means(value, kAny);
  if (!any && !parse_number<std::int64_t>(value)) throw BadInput("must be a number of meetings (0: none is ahead), any, or none");
  plan.staleness = any ? kAnyStaleness : whole_number(value, 0, kMostSteps);
}
std::string print_staleness(const Plan& plan) {
  if (!plan.staleness) return std::string(kNone);
  return *plan.staleness == kAnyStaleness ? std::string(kAny) : std::to_string(*plan.staleness);
}

std::string print_micro_batch(const Plan& plan) { return plan.micro_batch ? std::to_string(*plan.micro_batch) : ""; }

/// Numbers in their shortest form, so that equal shares have equal texts.
void parse_shares(Plan& plan, const std::string& value) {
  const auto rule = find_name(value, {"equal", "speed"});
  plan.shares = rule ? std::string(*rule) : text_of_shares(shares_in(value));
}

void parse_spatial(Plan& plan, const std::string& value) {
  const auto parts = split(value, 'x');
  std::array<int, 3> degrees{1, 1, 1};
  if (parts.size() > 3) throw BadInput("has more than three degrees; write DxHxW, HxW or W");
  for (std::size_t i = 0; i < parts.size(); ++i) degrees[3 - parts.size() + i] = static_cast<int>(whole_number(parts[i], 1, kMostRanks));
  plan.spatial = degrees;
}
std::string print_spatial(const Plan& plan) {
  return std::to_string(plan.spatial[0]) + "x" + std::to_string(plan.spatial[1]) + "x" + std::to_string(plan.spatial[2]);
}

std::vector<std::string_view> names_of_schedules() {
  std::vector<std::string_view> names;
  for (const auto& row : schedule_table()) names.push_back(row.name);
  return names;
}
std::vector<std::string_view> names_of_allreduce() {
  std::vector<std::string_view> names{"auto"};
  for (const auto& row : collective_table())
    if (row.kind == CollectiveKind::AllReduce) names.push_back(row.name);
  return names;
}
void parse_order(Plan& plan, const std::string& value) {
  static constexpr std::array<std::string_view, 5> kAxes{"tp", "cp", "ep", "dp", "pp"};
  const auto order = lower_case(value);
  auto parts = split(order, '.');
  std::erase(parts, "spatial");
  const bool complete =
      parts.size() == kAxes.size() && std::ranges::all_of(kAxes, [&](auto a) { return std::ranges::count(parts, a) == 1; });
  if (!complete || std::ranges::count(split(order, '.'), "spatial") > 1)
    throw BadInput("must name tp, cp, ep, dp and pp once each, innermost first, and spatial at most once: tp.cp.ep.dp.pp");
  plan.order = order;
}

// Node names may hold any character; those that the compact text needs for itself are written as % and two hexadecimal digits.
constexpr std::string_view kReserved = ",|% \t\r\n";
constexpr std::string_view kHexadecimal = "0123456789ABCDEF";

std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (kReserved.find(c) == std::string_view::npos)
      text += c;
    else
      (text += '%', text += kHexadecimal[byte >> 4], text += kHexadecimal[byte & 15]);
  }
  return text;
}

std::string unescaped(const std::string& text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    const auto high = i + 1 < text.size() ? kHexadecimal.find(text[i + 1]) : std::string_view::npos;
    const auto low = i + 2 < text.size() ? kHexadecimal.find(text[i + 2]) : std::string_view::npos;
    if (high == std::string_view::npos || low == std::string_view::npos)
      throw BadInput("has a % that no two hexadecimal digits (0-9, A-F) follow");
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return name;
}

void parse_cuts(Plan& plan, const std::string& value) {
  auto cuts = names_in(value);
  for (const auto& cut : cuts)
    if (cut.empty() || std::ranges::count(cuts, cut) > 1)
      throw BadInput("must be the names of the first nodes of the second stage, the third, ..., separated by |, none empty or twice");
  plan.cuts = std::move(cuts);
}

/// Throws BadInput unless it is KIND:AXIS:BYTES:ALGORITHM, all of them known.
void check_algorithm(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() != 4 || parts[1].empty())
    throw BadInput("'" + text + "' is none of KIND:AXIS:BYTES:ALGORITHM, as in all-reduce:dp:25165824:ring");
  (void)whole_number(parts[2], 0, std::numeric_limits<std::int64_t>::max());
  std::vector<std::string_view> known;
  for (const auto& row : collective_table())
    if (name(row.kind) == parts[0]) known.push_back(row.name);
  if (known.empty()) throw BadInput("'" + parts[0] + "' is no kind of collective, as all-reduce is");
  if (std::ranges::find(known, parts[3]) == known.end())
    throw BadInput("'" + parts[3] + "' is no algorithm of " + parts[0] + ": " + joined(known));
}

void parse_algorithms(Plan& plan, const std::string& value) {
  auto algorithms = names_in(value);
  for (const auto& one : algorithms) check_algorithm(one);
  plan.algorithms = std::move(algorithms);
}

/// "listed", as the platform lists them, is what is meant where nothing is said.
void parse_fill(Plan& plan, const std::string& value) {
  auto groups = means(value, kListed) ? std::vector<std::string>() : names_in(value);
  for (const auto& group : groups)
    if (group.empty() || std::ranges::count(groups, group) > 1)
      throw BadInput("must name groups of nodes, those first that ranks fill first, separated by |, none empty or twice; or listed");
  plan.fill = std::move(groups);
}

constexpr auto kInteger = KeyKind::Integer;
constexpr auto kSwitch = KeyKind::Switch;
constexpr auto kText = KeyKind::Text;

constexpr std::array kTable{
    PlanKey{"dp", "mesh", kInteger, true, parse_whole<&Plan::dp>, print<&Plan::dp>, "data parallel replicas"},
    PlanKey{"tp", "mesh", kInteger, true, parse_whole<&Plan::tp>, print<&Plan::tp>, "tensor parallel ranks"},
    PlanKey{"pp", "mesh", kInteger, true, parse_whole<&Plan::pp>, print<&Plan::pp>, "pipeline stages"},
    PlanKey{"cp", "mesh", kInteger, true, parse_whole<&Plan::cp>, print<&Plan::cp>, "context (sequence) parallel ranks"},
    PlanKey{"ep", "mesh", kInteger, true, parse_whole<&Plan::ep>, print<&Plan::ep>,
            "ranks of dp, and of cp and tp where it is larger, that share out experts"},
    PlanKey{"spatial", "mesh", kText, true, parse_spatial, print_spatial, "parts of an image: DxHxW, HxW or W"},
    PlanKey{"micro_batch", "pipeline", kInteger, true, parse_whole<&Plan::micro_batch, 1, kMostSteps>, print_micro_batch,
            "samples per pipeline slot of one replica; left out: the replica's whole batch"},
    PlanKey{"shares", "mesh", kText, false, parse_shares, print<&Plan::shares>,
            "of the batch, by replica: speed (what devices differ in; left out: this), equal, or numbers: 3:1, 24x8:8x8"},
    PlanKey{"schedule", "pipeline", kText, true, parse_row<&Plan::schedule, names_of_schedules>, print<&Plan::schedule>,
            "order of forward and backward passes", names_of_schedules},
    PlanKey{"interleave", "pipeline", kInteger, true, parse_whole<&Plan::interleave>, print<&Plan::interleave>,
            "model chunks per pipeline stage"},
    PlanKey{"zero", "rules", kInteger, true, parse_whole<&Plan::zero, 0, 3>, print<&Plan::zero>,
            "shared among replicas: 1 optimizer state, 2 and gradients, 3 and parameters"},
    PlanKey{"zero_group", "rules", kInteger, true, parse_zero_group, print_zero_group,
            "replicas over which zero shards, each group with a copy of all of it: a number that divides dp, or all"},
    PlanKey{"recompute", "rules", kText, true, parse_with<&Plan::recompute, parse_recompute>, print<&Plan::recompute>,
            "activations computed again: none, selective, selective-op, full, full:N (of the first N blocks of every part of a "
            "pipeline), full-except-last, as few as let a rank do with so many bytes: 4GiB, or as few as let the plan fit: fit"},
    PlanKey{"sequence_parallel", "rules", kSwitch, true, parse_switch<&Plan::sequence_parallel>, print<&Plan::sequence_parallel>,
            "splits along the sequence what tensor parallelism would replicate: on, off"},
    PlanKey{"attention", "rules", kText, true, parse_choice<&Plan::attention>, print<&Plan::attention>,
            "over a sequence that cp splits: gather (keys and values), all-to-all (from the sequence to the heads and back), ring (keys "
            "and values are passed on)"},
    PlanKey{"fuse", "rules", kText, false, parse_choice<&Plan::fuse>, print<&Plan::fuse>,
            "nodes that run as one kernel where the machine has it: attention, none"},
    PlanKey{"offload", "rules", kText, true, parse_choice<&Plan::offload>, print<&Plan::offload>,
            "kept in the host's memory: none, optimizer, activations"},
    PlanKey{"compression", "rules", kText, true, parse_with<&Plan::compression, parse_compression>, print<&Plan::compression>,
            "of results between forward and backward pass: none, gist, gist-sparse, gist-sparse:0.6 (no bit lost), gist-f16, gist-bf16 "
            "(rounded); of gradients on their way: bf16, f16, sign, 1bit, terngrad, qsgd:LEVELS, topk:SHARE, randomk:SHARE, powersgd:RANK, "
            "randomk-memory:SHARE, 1bit-adam, sparcml:SHARE (docs/compression.md)"},
    PlanKey{"exact_steps", "rules", kInteger, false, parse_whole<&Plan::exact_steps, 0, kMostSteps>, print<&Plan::exact_steps>,
            "first steps of a training in which gradients are summed whole, before compression or local_steps begin"},
    PlanKey{"local_steps", "rules", kInteger, false, parse_whole<&Plan::local_steps, 0, kMostSteps>, print<&Plan::local_steps>,
            "replicas train by themselves and meet every so many steps (local SGD); 0: gradients are summed in every step"},
    PlanKey{"outer", "rules", kText, false, parse_with<&Plan::outer, parse_outer_step>, print<&Plan::outer>,
            "what replicas do when they meet: average (their weights), nesterov, nesterov:RATE:MOMENTUM (DiLoCo), elastic, elastic:PULL "
            "(towards a center), gossip (with neighbours), adasum (their ways added where they are orthogonal)"},
    PlanKey{"staleness", "rules", kText, false, parse_staleness, print_staleness,
            "replicas meet one by one, at a parameter server: meetings that one may be ahead of the slowest, any, or none (all meet at "
            "once)"},
    PlanKey{"servers", "rules", kText, false, parse_with<&Plan::servers, parse_servers>, print<&Plan::servers>,
            "replicas that have parts of the parameter server of staleness: all, a number of them, or at:0+4 (which ones, from 0 on)"},
    PlanKey{
        "decompositions", "rules", kText, true, parse_choice<&Plan::decompositions>, print<&Plan::decompositions>,
        "inverses, roots and bases of shampoo, soap and kfac: everywhere (every replica makes all of them), spread (each some, for all)"},
    // "auto" is a value here, the algorithm of least closed form, and therefore nothing to search
    PlanKey{"allreduce", "rules", kText, false, parse_row<&Plan::allreduce, names_of_allreduce>, print<&Plan::allreduce>,
            "algorithm of gradient sums; auto is the quickest, one-sided ones put instead of sending", names_of_allreduce},
    PlanKey{"algorithms", "rules", KeyKind::Names, false, parse_algorithms, print<&Plan::algorithms>,
            "what auto took for messages, KIND:AXIS:BYTES:ALGORITHM separated by |; search writes it into the plan file"},
    PlanKey{"overlap", "rules", kSwitch, true, parse_switch<&Plan::overlap>, print<&Plan::overlap>,
            "collectives run beside computation, gradients are summed during the backward pass: on, off"},
    PlanKey{"bn", "rules", kText, true, parse_choice<&Plan::bn>, print<&Plan::bn>,
            "statistics of BatchNormalization: of the batch, local: of each replica's micro-batch, sync: of all replicas' micro-batches"},
    PlanKey{"order", "placement", kText, true, parse_order, print<&Plan::order>,
            "axes of the mesh from neighbouring ranks to distant ones"},
    PlanKey{"fill", "placement", KeyKind::Names, true, parse_fill, print<&Plan::fill>,
            "groups of nodes in the order in which ranks fill them, separated by |, by their name or that of their devices; those that are "
            "not named come behind; listed: as the platform's file has them"},
    PlanKey{"cuts", "pipeline", KeyKind::Names, true, parse_cuts, print<&Plan::cuts>,
            "first node of every stage but the first, separated by |; left out: balanced by cost"},
};

}  // namespace

std::span<const PlanKey> plan_keys() { return kTable; }

std::string description_of(const PlanKey& key) {
  return std::string(key.description) + (key.values == nullptr ? "" : ": " + joined(key.values()));
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& part : split(text, '|')) names.push_back(unescaped(part));
  return names;
}

std::string text_of_names(const std::vector<std::string>& names) { return joined(names, "|", escaped); }

const PlanKey* find_plan_key(std::string_view key) {
  if (const auto* same = std::ranges::find(kTable, key, &PlanKey::key); same != kTable.end()) return same;
  const auto found = find_name(key, names_of_rows(kTable, &PlanKey::key));
  return found ? std::ranges::find(kTable, *found, &PlanKey::key) : nullptr;
}

bool is_set(const PlanKey& row, const Plan& plan) {
  static const auto neutral = [] {
    std::array<std::string, kTable.size()> texts;
    for (std::size_t n = 0; n < kTable.size(); ++n) texts[n] = kTable[n].print({});
    return texts;
  }();
  return row.print(plan) != neutral[static_cast<std::size_t>(&row - kTable.data())];
}

std::string no_plan_key(std::string_view key) {
  return "'" + std::string(key) + "' is no key" + suggestion(key, names_of_rows(kTable, &PlanKey::key)) +
         " Known keys: " + joined(kTable, ", ", &PlanKey::key);
}

void set_plan_key(Plan& plan, const PlanKey& row, const std::string& value) {
  const bool fits = row.key == "recompute" && means(value, "fit");  // the quickest value that fits recomputes least
  const bool any = value == "auto" || (row.kind != KeyKind::Names && means(value, "auto"));
  if (row.searchable && (any || fits)) {
    plan.searched.emplace_back(row.key);
    return;
  }
  try {
    row.parse(plan, value);
  } catch (const BadInput& problem) {
    throw BadInput(std::string(row.key) + "=" + value, problem.what());
  }
}

std::vector<std::string> keys_without_effect(const Plan& plan, int copies) {
  std::vector<std::string> warnings;
  if (plan.schedule != Plan().schedule && plan.pp == 1) warnings.push_back("schedule=" + plan.schedule + " is without effect for pp=1");
  if (!plan.cuts.empty() && plan.pp == 1) warnings.push_back("cuts=" + text_of_names(plan.cuts) + " is without effect for pp=1");
  if (plan.sequence_parallel && plan.tp == 1) warnings.emplace_back("sequence_parallel=on is without effect for tp=1");
  if (plan.attention != AttentionForm::Gather && plan.cp == 1)
    warnings.push_back("attention=" + std::string(name(plan.attention)) + " is without effect for cp=1");
  if (plan.zero > 0 && copies == 1)
    warnings.push_back("zero=" + std::to_string(plan.zero) + " is without effect for dp=" + std::to_string(plan.dp) +
                       (plan.ep > 1 ? ",ep=" + std::to_string(plan.ep) + ": there is one copy of the experts" : ""));
  if (plan.zero_group > 0 && plan.zero == 0)
    warnings.push_back("zero_group=" + std::to_string(plan.zero_group) + " is without effect for zero=0");
  else if (plan.zero_group == 1)
    warnings.push_back("zero=" + std::to_string(plan.zero) + " is without effect for zero_group=1");
  return warnings;
}

std::vector<Violation> shard_group_violations(const Plan& plan) {
  if (plan.zero_group == 0 || plan.zero == 0) return {};
  if (plan.dp % plan.zero_group != 0)
    return {{"zero_group", std::to_string(plan.zero_group) + " replicas do not divide the " + std::to_string(plan.dp) + " of dp",
             "use a number that divides dp, or all"}};
  if (plan.ep > 1) return {{"zero_group", "the ranks of ep have experts of their own and copies of everything else", "use all, or ep=1"}};
  return {};
}

void check_whole_plan(const Plan& plan) {
  std::int64_t ranks = 1;
  for (const int degree : {plan.dp, plan.tp, plan.pp, plan.cp, plan.spatial[0], plan.spatial[1], plan.spatial[2]}) {
    ranks *= degree;  // both factors are at most kMostRanks: no overflow
    if (ranks > kMostRanks)
      throw BadInput("the degrees dp, tp, pp, cp and spatial multiply to more than " + std::to_string(kMostRanks) + " ranks");
  }
}

}  // namespace rehearsal::plan
