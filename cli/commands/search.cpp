#include "search/search.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "base/text_lines.hpp"
#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/goodput_options.hpp"
#include "cli/mixed_frameworks.hpp"
#include "cli/platform_options.hpp"
#include "cli/power_caps.hpp"
#include "costmodel/money.hpp"
#include "plan/compressors.hpp"
#include "platforms/strict_json.hpp"
#include "predict/free_keys.hpp"
#include "predict/memory_risk.hpp"
#include "predict/simulation.hpp"

namespace rehearsal::cli {
namespace {

struct SearchRequest {
  ModelOptions model;
  PlatformOptions platform;            ///< what holds for all `platforms`
  std::vector<std::string> platforms;  ///< a choice of hardware
  std::string objective = "time", budget, output, plans;
  std::vector<std::string> limits, allowed;
  GoodputOptions goodput;
  std::optional<std::size_t> top;
  std::size_t confirm = 3;
};

constexpr std::size_t kAlikeShown = 8, kUsualTop = 5;
constexpr const char* kFront = "pareto";

/// "30s" is a time, "2000plans" a count.
void set_budget(const std::string& text, search::SearchOptions& options) {
  if (text.empty()) return;
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  const bool good = number && std::isfinite(*number) && *number > 0;
  if (good && unit == "plans")
    options.plans = static_cast<std::int64_t>(*number);
  else if (good && (unit == "s" || unit == "ms" || unit == "min"))
    options.seconds = *number * (unit == "ms" ? 1e-3 : unit == "min" ? 60 : 1);
  else
    throw BadInput("--budget " + text, "write a time such as 30s, or a count such as 2000plans");
}

/// One job for each platform.
std::vector<std::unique_ptr<JobSetup>> setups_of(const SearchRequest& o, Terminal& terminal) {
  std::vector<std::unique_ptr<JobSetup>> setups;
  for (const auto& platform : o.platforms) {
    auto on = o.platform;
    on.platform = platform;
    for (const auto& capped : with_power_caps(on)) setups.push_back(std::make_unique<JobSetup>(o.model, capped));
    for (const auto& earlier : std::span(setups).first(setups.size() - 1))
      if (earlier->platform().name == setups.back()->platform().name)
        throw BadInput("--platform " + platform, "two platforms are called " + earlier->platform().name + "; rename one");
  }
  for (const auto& w : setups.front()->warnings()) terminal.warn(w);
  return setups;
}

/// Other mathematics that the search may choose. Only our own execution has any.
std::vector<std::string> allowed_mathematics(const SearchRequest& o, const JobSetup& first) {
  const auto known = search::allowed_words();
  std::vector<std::string> allowed;
  for (const auto& given : o.allowed) {
    const std::string word(known_name("--allow", given, Names(known.begin(), known.end())));
    allowed.push_back(word);
    if (!o.plans.empty()) throw BadInput("--allow", "and --plans exclude each other: a list of plans says all keys of each");
    if (!first.is_own())
      throw Refusal("--allow " + word + ": predictions of " + first.predictor().framework().name +
                    " do not know it; use --framework rehearse");
    const auto named = o.platform.plan.empty() ? std::vector<std::string_view>() : plan::named_keys(o.platform.plan);
    for (const auto& row : predict::free_keys())
      if (row.allowed_by == word && std::ranges::count(named, row.key) > 0)
        throw BadInput("--allow " + word, "and --plan exclude each other, which says " + std::string(row.key) + " itself; leave one out");
  }
  return allowed;
}

/// A plan that names no key as auto is the only one there is.
void warn_of_nothing_to_search(const SearchRequest& o, const search::SearchOptions& options, const Terminal& terminal) {
  if (o.platform.plan.empty() || !options.fixed.searched.empty() || !options.allowed.empty()) return;
  terminal.warn(
      "--plan " + o.platform.plan +
      " leaves nothing to search: keys that it does not name have their defaults; write KEY=auto for each that is to be searched, as in "
      "micro_batch=auto");
}

/// What the best plan costs that no time shows.
void warn_of_mathematics(const plan::Plan& best, const Terminal& terminal) {
  if (const auto* row = plan::compressor(best.compression.rule))
    terminal.warn("the best plan has other mathematics, compression=" + to_text(best.compression) + ": " + std::string(row->caveat) + " (" +
                  std::string(row->source) + ")");
  if (best.local_steps > 0)
    terminal.warn("the best plan has other mathematics: replicas train by themselves and meet every " + std::to_string(best.local_steps) +
                  (best.local_steps == 1 ? " step" : " steps") + (best.staleness ? ", one by one" : "") + ", outer=" + to_text(best.outer) +
                  "; whether as many steps reach the same loss is another question (docs/local-steps.md)");
}

search::SearchOptions search_options(const SearchRequest& o, const JobSetup& first) {
  search::SearchOptions options;
  options.objective = o.objective;
  options.top = o.top.value_or(kUsualTop);
  options.confirm = o.confirm;
  options.steps = first.steps();
  for (const auto& limit : o.limits) options.limits.push_back(search::parse_limit(limit));
  for (const auto& limit : options.limits)
    if (limit.row->of_training && !o.platform.input.extent.given())
      throw BadInput("--limit " + std::string(limit.row->name),
                     "is of a whole training; say how long that is with --steps, --epochs or --tokens, or limit step");
  options.allowed = allowed_mathematics(o, first);
  set_budget(o.budget, options);
  if (!o.platform.plan.empty()) {
    if (!o.plans.empty()) throw BadInput("--plan", "and --plans exclude each other: a list of plans says all keys of each");
    // Keys given as "auto" are searched, the others are fixed.
    options.fixed = plan_argument(o.platform.plan).plan;
    options.free = {};
  }
  return options;
}

std::string read_whole_file(const std::string& path) {
  auto in = open_text(path);
  std::ostringstream text;
  if (!(text << in.rdbuf())) throw BadInput(path, "is empty; write one plan a line");
  return without_byte_order_mark(text.str());
}

/// "line 3", and the plan that stands there.
using PlanEntries = std::vector<std::pair<std::string, std::string>>;

/// One compact text a line, or a JSON array of them.
PlanEntries plan_entries(const std::string& file) {
  const auto text = read_whole_file(file);
  PlanEntries entries;
  if (const auto first = text.find_first_not_of(" \t\r\n"); first != std::string::npos && text[first] == '[') {
    try {
      const auto array = nlohmann::json::parse(text);
      for (std::size_t n = 0; n < array.size(); ++n) {
        if (!array[n].is_string()) throw BadInput(file, "entry " + std::to_string(n + 1) + ": must be a plan as text: \"dp=8,zero=1\"");
        entries.emplace_back("entry " + std::to_string(n + 1), array[n].get<std::string>());
      }
    } catch (const nlohmann::json::exception& error) {
      throw BadInput(file, "must be a JSON array of plans as text, or one plan a line: " + platforms::reason_of(error));
    }
  } else {
    std::istringstream lines(text);
    std::string line;
    for (int n = 1; std::getline(lines, line); ++n) {
      line.erase(line.find_last_not_of(" \t\r") + 1);
      if (!line.empty() && line.front() != '#') entries.emplace_back("line " + std::to_string(n), line);
    }
  }
  return entries;
}

/// Each plan of a list once, with a warning of those that stand there again. Throws BadInput naming every line that is no plan.
std::vector<plan::Plan> plans_of(const std::string& file, Terminal& terminal) {
  std::vector<plan::Plan> plans;
  std::vector<std::string> places;
  std::string faults;
  for (const auto& [place, entry] : plan_entries(file)) {
    try {
      auto plan = plan::parse_plan(entry);
      if (!plan.searched.empty()) throw BadInput("a plan of a list has no key that is auto");
      if (const auto same = std::ranges::find(plans, plan); same != plans.end()) {
        terminal.warn(file + ": " + place + ": is the plan of " + places[static_cast<std::size_t>(same - plans.begin())] +
                      "; it is ranked once");
        continue;
      }
      plans.push_back(std::move(plan));
      places.push_back(place);
    } catch (const BadInput& error) {
      faults += (faults.empty() ? "" : "; ") + place + ": " + error.what();
    }
  }
  if (!faults.empty()) throw BadInput(file, faults);
  if (plans.empty()) throw BadInput(file, "has no plan");
  return plans;
}

using Setups = std::vector<std::unique_ptr<JobSetup>>;

const JobSetup& setup_of(const Setups& setups, const predict::Assessment& a) {
  return **std::ranges::find_if(setups, [&](const auto& s) { return s->platform().name == a.platform; });
}

nlohmann::ordered_json entry_of(const search::RankedPlan& p, const Setups& setups, double steps) {
  auto entry = to_json(p.answer, steps);
  entry["framework"] = p.answer.framework;
  if (const auto left = setup_of(setups, p.answer).left_to_program(p.answer); !left.empty()) entry["left_to_program"] = left;
  entry["fidelity"] = p.played ? "folded" : "closed";
  entry["closed_seconds"] = to_json(p.closed.step_seconds);
  entry["platform"] = p.answer.platform;
  entry["why_not"] = p.why_not;
  auto alike = nlohmann::ordered_json::array();
  for (std::size_t n = 0; n < std::min<std::size_t>(p.alike.size(), kAlikeShown); ++n) alike.push_back(plan::to_text(p.alike[n]));
  if (!alike.empty()) entry["alike"] = alike;
  return entry;
}

nlohmann::ordered_json result_json(const search::SearchResult& found, const Setups& setups, double steps) {
  nlohmann::ordered_json result;
  auto plans = nlohmann::ordered_json::array();
  for (const auto& p : found.plans) plans.push_back(entry_of(p, setups, steps));
  leave_out_one_framework(plans, found.plans.front().answer.framework);
  result["plans"] = plans;
  if (!found.refused.empty()) {
    auto refused = nlohmann::ordered_json::array();
    for (const auto& [plan, reason] : found.refused) refused.push_back({{"plan", plan}, {"reason", reason}});
    result["refused"] = refused;
  }
  result["searched"] = found.searched;
  result["pruned"] = found.pruned;
  result["exhausted"] = found.exhausted;
  result["seconds"] = found.seconds;
  result["plans_per_second"] = static_cast<double>(found.looked_at()) / found.seconds;
  return result;
}

/// A front is as long as it is; of one that is longer than --top the quickest plans stay. Says how many others there are.
std::size_t cut_front(const SearchRequest& o, search::SearchResult& found) {
  if (o.objective != kFront || !o.top || found.plans.size() <= *o.top) return 0;
  const auto more = found.plans.size() - *o.top;
  found.plans.resize(*o.top);
  return more;
}

/// The best plan may be one that runs out of memory as likely as not; one that does not, where it is among those that are shown.
void warn_of_memory(const search::SearchResult& found, Terminal& terminal) {
  const auto& best = found.plans.front().answer;
  const auto chance = predict::chance_of_running_out(best);
  if (chance <= predict::kRisky || !best.fits()) return;
  const auto safe =
      std::ranges::find_if(found.plans, [](const auto& p) { return predict::chance_of_running_out(p.answer) <= predict::kSafe; });
  std::string instead;
  if (safe != found.plans.end()) {
    const auto percent = static_cast<int>(std::lround(100 * (safe->answer.step / best.step - 1)));
    instead = "; " + plan::to_text(safe->answer.plan) + ", plan " + std::to_string(safe - found.plans.begin() + 1) +
              " of these, with one of " + predict::chance_text(predict::chance_of_running_out(safe->answer)) + ": a step takes " +
              std::to_string(std::abs(percent)) + " % " + (percent < 0 ? "less" : "more");
  }
  terminal.warn("the best plan runs out of memory with a chance of " + predict::chance_text(chance) + instead +
                "; --limit out-of-memory=5% looks for safe plans alone");
}

/// Who asks how to be quick may expect that all devices help.
void warn_of_idle_devices(const SearchRequest& o, const predict::Assessment& best, const JobSetup& winner, const Terminal& terminal) {
  const int devices = platforms::device_count(winner.platform());
  if (o.objective != "time" || best.ranks >= devices) return;
  terminal.warn("the best plan uses " + std::to_string(best.ranks) + " of " + std::to_string(devices) +
                " devices, and the others would be idle; --devices " + std::to_string(best.ranks) + " asks for no more");
}

bool compares_money(const search::SearchOptions& options) {
  const auto of_money = [](const search::Limit& limit) { return limit.row->name == "cost"; };
  return options.objective == "cost" || options.objective == kFront || std::ranges::any_of(options.limits, of_money);
}

/// What money of the other platforms is of, where that is something else; heading() says it of the winner.
void say_prices(const Setups& setups, const JobSetup& winner, bool compared_money, nlohmann::ordered_json& result,
                const Terminal& terminal) {
  std::vector<const platforms::Platform*> compared;
  auto others = nlohmann::ordered_json::array();
  for (const auto& setup : setups) {
    const auto& platform = setup->platform();
    compared.push_back(&platform);
    if (auto basis = costmodel::price_basis(platform); basis != costmodel::price_basis(winner.platform()))
      others.push_back({{"platform", platform.name}, {"price_basis", std::move(basis)}});
  }
  if (others.empty()) return;
  result["other_price_bases"] = others;
  if (!compared_money) return;
  if (const auto mixed = costmodel::mixed_price_bases(compared); !mixed.empty()) terminal.warn(mixed);
}

/// Where the answer shows it anyway (JSON: `exhausted`) it is not said twice.
void say_what_ended(const search::SearchResult& found, const search::SearchOptions& options, bool stopped, const Terminal& terminal) {
  if (found.exhausted || terminal.json()) return;
  const std::string ended = stopped ? "the search was stopped"
                            : options.plans
                                ? "the budget was " + std::to_string(*options.plans) + (*options.plans == 1 ? " plan" : " plans")
                                : "the time was over";
  terminal.say("not every plan was looked at: " + ended + "; --budget gives it more, --plan fixes what you know");
}

int search(const SearchRequest& o, Terminal& terminal) {
  if (!o.output.empty()) require_place(o.output);
  const auto given = o.plans.empty() ? std::vector<plan::Plan>() : plans_of(o.plans, terminal);
  const auto setups = setups_of(o, terminal);
  std::vector<predict::Predictor*> jobs;
  for (const auto& setup : setups) jobs.push_back(given.empty() ? &setup->choosing() : &setup->answering());
  auto options = search_options(o, *setups.front());
  warn_of_nothing_to_search(o, options, terminal);
  options.goodput = [&setups, question = o.goodput.question(options.steps)](const predict::Assessment& a) {
    return predict::goodput_of(a, setup_of(setups, a).platform_for(a.plan), question);
  };
  const auto player = o.confirm > 0 ? predict::open_simulator("folded") : nullptr;
  options.player = player.get();
  const auto progress = terminal.progress("searching");
  auto found = given.empty() ? search::search(jobs, options, *progress) : search::ranked(jobs, given, options, *progress);
  const auto more_on_front = cut_front(o, found);
  const auto& best = found.plans.front().answer;
  const auto& winner = setup_of(setups, best);
  auto result = winner.heading(o.model, &best);
  say_prices(setups, winner, compares_money(options), result, terminal);
  result["objective"] = o.objective;
  result.update(result_json(found, setups, options.steps));
  if (more_on_front > 0) result["more_on_front"] = more_on_front;
  warn_of_memory(found, terminal);
  warn_of_idle_devices(o, best, winner, terminal);
  warn_of_mathematics(best.plan, terminal);
  if (const auto mixed = mixed_frameworks(frameworks_of(result.at("plans"))); !mixed.empty()) terminal.warn(mixed);
  if (!found.not_played.empty()) terminal.warn("the best plans were not played: " + found.not_played);
  say_what_ended(found, options, progress->stop_requested(), terminal);
  if (!o.output.empty()) {
    plan::write_plan_file(o.output, {winner.to_write(best.plan), winner.context(o.model, best.plan)});
    result["written"] = o.output;
  }
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_search(CLI::App& app) {
  auto o = std::make_shared<SearchRequest>();
  o->model.add_to(app);
  app.add_option("--platform", o->platforms, std::string(kPlatformHelp) + "; several are a choice of hardware")->required();
  o->platform.add_without_platform_to(app);
  app.add_option("--objective", o->objective, "time, energy, cost, memory or pareto");
  app.add_option("--limit", o->limits,
                 "NAME=VALUE that no plan may exceed, of step=2s, total=72h, cost=50000, energy=10MWh, memory=60GB, out-of-memory=5%, "
                 "devices=512; may "
                 "be given several times");
  o->platform.input.extent.add_to(app);
  o->platform.input.add_to(app);
  o->goodput.add_to(app);
  app.add_option("--budget", o->budget, "30s, or 2000plans to be reproducible; 60s when it is left out");
  app.add_option("--allow", o->allowed,
                 "other mathematics that may be chosen: compression (of gradients, docs/compression.md), async (replicas meet now and "
                 "then, or one by one, docs/local-steps.md)")
      ->delimiter(',');
  app.add_option("--plans", o->plans, "a file of plans to rank, one a line or a JSON array: these and no others");
  app.add_option("--confirm", o->confirm, "so many of the best plans are played before they are ranked")->check(CLI::Range(0, 1000));
  app.add_option("--top", o->top, "plans to show: 5 without it; of pareto the quickest ones, all of them without it")
      ->check(CLI::Range(1, 1000));
  app.add_option("-o,--output", o->output, "where to write the best plan");
  return [o](Terminal& terminal) {
    install_termination_handler();
    o->objective = search::objective_name(o->objective);
    return search(*o, terminal);
  };
}

}  // namespace rehearsal::cli
