#include "cli/assessment_json.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/goodput_options.hpp"
#include "cli/input_json.hpp"
#include "predict/changes.hpp"
#include "predict/memory_risk.hpp"

namespace rehearsal::cli {

using Json = nlohmann::ordered_json;

Json to_json(const costmodel::Interval& i) { return {{"value", i.value}, {"low", i.low}, {"high", i.high}}; }

namespace {

Json scaled(const costmodel::Interval& step, double quantity) {
  const double by = step.value > 0 ? quantity / step.value : 0;
  return {{"value", quantity}, {"low", step.low * by}, {"high", step.high * by}};
}

/// What gets less as the step gets longer.
Json rate(const costmodel::Interval& step, double quantity) {
  return {{"value", quantity}, {"low", quantity * step.value / step.high}, {"high", quantity * step.value / step.low}};
}

Json memory_json(const predict::Assessment& a) {
  Json memory{{"value", a.memory_bytes},       {"low", a.memory_low},           {"high", a.memory_high},
              {"rests_on", a.memory_rests_on}, {"capacity", a.memory_capacity}, {"worst_rank", a.worst_rank}};
  if (a.host_bytes != 0) memory["on_host"] = a.host_bytes;
  Json categories = Json::object();
  for (std::size_t c = 0; c < a.memory_by_category.size(); ++c)
    if (a.memory_by_category[c] != 0) categories[std::string(plan::name(static_cast<plan::MemoryCategory>(c)))] = a.memory_by_category[c];
  memory["by_category"] = categories;
  return memory;
}

Json clocks_json(const predict::StageClocksAnswer& clocks) {
  Json j{{"slower_share", clocks.slower}, {"energy_saved_share", clocks.saved}, {"stages", Json::array()}};
  for (const auto& stage : clocks.stages)
    j["stages"].push_back({{"stage", j["stages"].size()}, {"clock_share", stage.share}, {"watts", stage.watts.value()}});
  return j;
}

}  // namespace

Json to_json(const predict::Assessment& a, double steps) {
  Json j;
  j["plan"] = plan::to_text(a.plan);
  j["ranks"] = a.ranks;
  j["step_seconds"] = to_json(a.step_seconds);
  const auto whole = predict::training_seconds(a, steps);
  j["total_seconds"] = to_json(whole);
  j["steps"] = steps;
  if (steps > 1) j["device_seconds"] = scaled(whole, whole.value * a.ranks);
  j["samples_per_second"] = rate(a.step_seconds, a.samples_per_second);
  if (a.tokens_per_sample > 0) {
    const double tokens = a.samples_per_second * a.tokens_per_sample;
    j["tokens_per_second"] = rate(a.step_seconds, tokens);
    j["tokens_per_second_per_device"] = rate(a.step_seconds, tokens / a.ranks);
  }
  j["memory_bytes"] = memory_json(a);
  j["out_of_memory_chance"] = predict::chance_of_running_out(a);
  const auto cost = predict::training_cost(a, steps);
  j["energy_joules"] = scaled(whole, cost.energy.value());
  j["cost_dollars"] = scaled(whole, cost.money.value());
  j["carbon_kg"] = scaled(whole, cost.carbon_kg);
  if (a.stage_clocks) j["stage_clocks"] = clocks_json(*a.stage_clocks);
  if (a.input) j["input"] = input_json(a);
  if (a.goodput) j["goodput"] = goodput_json(a);
  j["mfu"] = a.mfu;
  if (!a.shares.empty()) j["shares"] = a.shares;
  for (const auto& part : predict::kBreakdownParts) j["breakdown"][std::string(part.key)] = (a.breakdown.*part.seconds).value();
  if (a.stragglers) j["waiting_for_stragglers_seconds"] = a.stragglers->value();
  j["bottleneck"] = a.bottleneck;
  j["limiting"] = Json{{"rank", a.limiting_rank}, {"imbalance_seconds", a.imbalance.value()}};
  j["evidence"] = Json{{"exact", a.evidence[0]}, {"fitted", a.evidence[1]}, {"datasheet", a.evidence[2]}};
  if (!a.new_to_us.empty()) j["new_to_us"] = a.new_to_us;
  return j;
}

namespace {

bool risky(const predict::Assessment& a) { return predict::chance_of_running_out(a) > predict::kRisky; }

/// Of a plan that fits, but for chance.
void print_risky(Terminal& terminal, Json result, const predict::Assessment& assessment, const std::string& remedy) {
  terminal.warn("plan " + plan::to_text(assessment.plan) + " runs out of memory with a chance of " +
                predict::chance_text(predict::chance_of_running_out(assessment)) + (remedy.empty() ? "" : "; " + remedy));
  if (!remedy.empty()) result["remedy"] = remedy;
  terminal.print(result);
}

}  // namespace

void print_for_plan(Terminal& terminal, Json result, const predict::Assessment& assessment, const std::string& remedy) {
  if (assessment.fits() && risky(assessment)) return print_risky(terminal, std::move(result), assessment, remedy);
  if (assessment.fits()) return terminal.print(result);
  const auto shortage = predict::shortage(assessment);
  if (assessment.may_fit()) {
    const auto warning =
        "plan " + plan::to_text(assessment.plan) + " " + predict::doubt(assessment) + (remedy.empty() ? "" : "; " + remedy);
    result["may_not_fit"] = warning;
    terminal.warn(warning);
    return terminal.print(result);
  }
  result["fits"] = false;
  result["shortage"] = shortage;
  if (!remedy.empty()) result["remedy"] = remedy;
  terminal.print(result);
  throw Refusal("plan " + plan::to_text(assessment.plan) + " " + shortage + (remedy.empty() ? "" : "; " + remedy));
}

namespace {

/// "with zero=3 it needs 75.9 GB (a chance of running out of 31 %) and a step takes 3 % less"
std::string sentence_of(const predict::FittingPlan& remedy, const predict::Assessment& now) {
  std::string changes;
  for (const auto& change : remedy.changes) changes += (changes.empty() ? "" : ",") + change;
  const double slower = remedy.assessment.step / now.step - 1;
  changes += predict::as_another_runs_it(remedy.assessment, now);
  const auto percent = std::to_string(static_cast<int>(std::lround(std::abs(slower) * 100)));
  return "with " + changes + " it needs " + to_text(Bytes(static_cast<double>(remedy.assessment.memory_bytes))) +
         " (a chance of running out of " + predict::chance_text(predict::chance_of_running_out(remedy.assessment)) + ") and a step takes " +
         percent + " % " + (slower < 0 ? "less" : "more");
}

}  // namespace

std::string remedy_of(predict::Predictor& predictor, const predict::Assessment& assessment) {
  if (assessment.fits() && !risky(assessment)) return {};
  const auto sentence = [now = predictor.closed(assessment.plan),
                         &framework = predictor.framework_for(assessment.plan).product()](const predict::Remedy& remedy) -> std::string {
    if (remedy.plan) return sentence_of(*remedy.plan, now);
    if (remedy.all_tried)
      return "no smaller micro-batch, sharded update, recomputation or offload that " + framework +
             " can be told mends that; use more ranks (rehearse search), or another --framework";
    return "what mends that was not found among the changes that were tried, for " + to_text(predict::kTimeForRemedies) +
           " at most; rehearse search looks further";
  };
  std::string text;
  if (!assessment.fits()) {
    const auto remedy = predict::cheapest_remedy(predictor, assessment.plan);
    if (!remedy.plan) return sentence(remedy);
    text = sentence(remedy);
    if (!risky(remedy.plan->assessment)) return text;
  }
  const auto safe = predict::cheapest_remedy(predictor, assessment.plan, predict::Goal::FitsSafely);
  if (text.empty()) return sentence(safe);
  return safe.plan ? text + "; " + sentence(safe) : text;
}

}  // namespace rehearsal::cli
