#include "cli/budget_answer.hpp"

#include <algorithm>
#include <cmath>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/parse_number.hpp"
#include "cli/assessment_json.hpp"
#include "cli/help/help_page.hpp"
#include "cli/short_search.hpp"
#include "cli/vary.hpp"
#include "graph/zoo/scaled.hpp"
#include "predict/scaling/batch_return.hpp"
#include "predict/scaling/sizing.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;
using predict::scaling::Trained;
using predict::scaling::Tried;

/// "7B", "350M".
double size_of_text(const std::string& text, const std::string& whole) {
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  const double factor = unit.empty() ? 1 : unit == "k" ? 1e3 : unit == "M" ? 1e6 : unit == "B" ? 1e9 : unit == "T" ? 1e12 : 0;
  const double size = number ? *number * factor : 0;
  if (!(size >= 1) || !std::isfinite(size))
    throw BadInput("--sizes " + whole, "write parameters such as 1.3B,7B, or 1B..64B for every doubling");
  return size;
}

/// Everything that stays the same from size to size.
class BudgetedTraining {
 public:
  BudgetedTraining(const BudgetOptions& o, const BudgetQuestion& q)
      : options_(o), question_(q), law_(predict::scaling::known_law("--law", o.law)) {
    for (const auto& text : o.budgets) budgets_.push_back(predict::scaling::parse_budget("--budget", text));
    for (std::size_t n = 0; n < budgets_.size(); ++n)
      for (std::size_t m = 0; m < n; ++m)
        if (budgets_[m].row == budgets_[n].row)
          throw BadInput("--budget " + budgets_[n].text,
                         "there is one of " + std::string(budgets_[m].row->noun) + " already, " + budgets_[m].text);
  }

  [[nodiscard]] const predict::scaling::ScalingLaw& law() const { return law_; }
  [[nodiscard]] bool asks_carbon() const { return question_.platform.costs.grams_per_kilowatt_hour.has_value(); }
  [[nodiscard]] const std::vector<predict::scaling::Budget>& budgets() const { return budgets_; }

  /// The keys with which the answer begins. Throws Refusal where the model is none that laws know of.
  [[nodiscard]] Json heading(Terminal& terminal) const {
    require_training_of_all("--budget", question_.model);
    facts_of(question_.model);
    const JobSetup setup(question_.model, question_.platform);
    for (const auto& warning : setup.warnings()) terminal.warn(warning);
    auto heading = setup.heading(question_.model);
    Json budgets = Json::object();
    for (const auto& budget : budgets_) budgets[std::string(budget.row->key)] = budget.amount;
    heading["budget"] = budgets;
    heading["law"] = std::string(law_.name);
    return heading;
  }

  /// Parameters with which to begin to look: what the law gives the compute that the model's own size makes of the budget.
  [[nodiscard]] double first_guess() const {
    for (const auto& budget : budgets_)
      if (budget.row->key == "flops") return law_.best(Flops(budget.amount)).parameters;
    try {
      return law_.best(law_.flops_of(trained(question_.model.model).scale())).parameters;
    } catch (const Refusal&) {
      constexpr double kSmaller = 8;
      return facts_of(question_.model).parameters / kSmaller;
    }
  }

  /// Throws Refusal where it cannot be trained.
  [[nodiscard]] Trained trained(const std::string& reference) const {
    auto model = question_.model;
    model.model = reference;
    const auto facts = facts_of(model);
    JobSetup setup(model, question_.platform);
    std::optional<Trained> best;
    for (const auto& plan : plans_of(setup, model)) {
      auto assessment = setup.predictor().closed(plan);
      if (!assessment.may_fit()) throw Refusal("plan " + plan::to_text(plan) + " " + predict::shortage(assessment));
      auto t = predict::scaling::train_until(budgets_, facts, std::move(assessment), law_, [&](const predict::Assessment& a, double steps) {
        return predict::goodput_of(a, setup.platform_for(a.plan), question_.goodput.question(steps, budgets_text()));
      });
      if (!best || t.tokens.value > best->tokens.value) best = std::move(t);
    }
    return std::move(*best);
  }

  /// The same, with the reason where it cannot be trained.
  [[nodiscard]] Tried tried(double parameters) const {
    Tried t{.asked = parameters, .model = {}, .trained = {}, .refused = {}};
    try {
      t.model = graph::zoo::scaled(question_.model.model, parameters);
      t.trained = trained(t.model);
    } catch (const Refusal& refusal) {
      t.refused = refusal.what();
    }
    return t;
  }

 private:
  static predict::scaling::LanguageModel facts_of(const ModelOptions& model) {
    return predict::scaling::language_model(load_model(model).graph, model.model);
  }

  [[nodiscard]] std::string budgets_text() const { return "--budget " + joined(budgets_, " --budget ", &predict::scaling::Budget::text); }

  /// The plan that is given, else for every budget the one that makes most of it.
  std::vector<plan::Plan> plans_of(JobSetup& setup, const ModelOptions& model) const {
    if (!question_.platform.plan.empty()) return {setup.plan(model, question_.platform).plan};
    std::vector<plan::Plan> plans;
    for (const auto& budget : budgets_) {
      auto plan = best_of_few(setup, budget.row->objective);
      if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(std::move(plan));
    }
    return plans;
  }

  const BudgetOptions& options_;
  const BudgetQuestion& question_;
  const predict::scaling::ScalingLaw& law_;
  std::vector<predict::scaling::Budget> budgets_;
};

/// What the training takes of everything that may be a budget, and with `carbon` what it emits.
void add_spending(Json& j, const Trained& t, bool carbon) {
  const auto& step = t.assessment.step_seconds;
  const auto spread = [&](double spent) {
    return Json{{"value", spent}, {"low", spent * step.low / step.value}, {"high", spent * step.high / step.value}};
  };
  const bool exact = t.spent->row->key == "flops";
  for (const auto& row : predict::scaling::budget_table()) {
    const double flops_of_step = t.flops().value() / t.steps;
    const double spent = row.spent({t.assessment, flops_of_step, t.steps});
    const std::string key = row.key == "flops"     ? "flops"
                            : row.key == "seconds" ? "total_seconds"
                            : row.key == "dollars" ? "cost_dollars"
                                                   : "energy_joules";
    j[key] = exact && row.key != "flops" ? spread(spent) : Json(spent);
  }
  if (!carbon) return;
  const auto& goodput = t.assessment.goodput;
  const double kilograms = goodput ? goodput->cost.carbon_kg : t.assessment.cost.carbon_kg * t.steps;
  j["carbon_kg"] = exact ? spread(kilograms) : Json(kilograms);
}

Json size_row(const Tried& tried, double least_loss, bool carbon) {
  Json row;
  if (!tried.trained) return {{"parameters", tried.asked}, {"model", tried.model}, {"refused", tried.refused}};
  const auto& t = *tried.trained;
  row["parameters"] = t.model.parameters;
  row["tokens"] = t.tokens.value;
  row["loss"] = t.loss.value;
  row["loss_above_best"] = t.loss.value - least_loss;
  Json spending;
  add_spending(spending, t, carbon);
  for (const auto& [key, value] : spending.items()) row[key] = value.is_object() ? value.at("value") : value;
  row["plan"] = plan::to_text(t.assessment.plan);
  row["model"] = tried.model;
  return row;
}

/// Laws are of batches below the critical one; empty where this one is.
std::string beyond_critical(const Trained& t, const predict::scaling::ScalingLaw& law) {
  const double critical = predict::scaling::LawInBatches(law, t.model).critical(t.loss.value);
  if (t.batch() <= critical) return {};
  char text[200];
  std::snprintf(text, sizeof text, "a batch of %.3g tokens, above the critical one of %.3g at this loss: laws are of smaller ones",
                t.batch(), critical);
  return text;
}

Json training_json(const std::string& model, const Trained& t, const BudgetedTraining& training) {
  const auto& law = training.law();
  const auto& a = t.assessment;
  Json j{{"model", model},
         {"parameters", t.model.parameters},
         {"tokens", to_json(t.tokens)},
         {"tokens_per_parameter", t.tokens.value / t.model.parameters},
         {"loss", to_json(t.loss)},
         {"steps", t.steps},
         {"plan", plan::to_text(a.plan)},
         {"framework", a.framework},
         {"step_seconds", to_json(a.step_seconds)}};
  add_spending(j, t, training.asks_carbon());
  j["spent_first"] = t.spent->text;
  j["memory_bytes"] = static_cast<double>(a.memory_bytes);
  j["mfu"] = a.mfu;
  j["flops_over_6nd"] = t.model.flops_over_six_n();
  j["tokens_over_least"] = t.tokens_over_least();
  const auto far = predict::scaling::outside(law, t.scale()), beyond = beyond_critical(t, law);
  const auto both = far + (far.empty() || beyond.empty() ? "" : "; ") + beyond;
  j["outside_of_fit"] = both.empty() ? "nothing" : both;
  return j;
}

/// What each law makes of the compute that the training takes, as it counts that, with batches of the same size; and of the training
/// itself.
Json laws_json(const Trained& t) {
  auto rows = Json::array();
  for (const auto& law : predict::scaling::scaling_laws()) {
    Json row{{"law", std::string(law.name)}};
    const bool sizes = law.best != nullptr;
    const auto best = sizes ? law.best(law.flops_of(t.scale())) : predict::scaling::Allocation{};
    if (sizes) {
      row["parameters"] = best.parameters;
      row["tokens"] = best.tokens * t.tokens_over_least();
    }
    if (law.loss != nullptr) row["loss_here"] = law.loss_of(t.scale());
    if (law.loss != nullptr && sizes) row["least_loss"] = law.loss(best.parameters, best.tokens);
    row["counts"] = law.without_embeddings ? "without embeddings" : "all";
    const auto far = predict::scaling::outside(law, t.scale());
    if (!far.empty()) row["outside_of_fit"] = far;
    if (!law.superseded.empty()) row["superseded"] = std::string(law.superseded);
    row["losses_are_of"] = std::string(law.data);
    row["source"] = std::string(law.source);
    rows.push_back(row);
  }
  return rows;
}

std::string billions(double parameters) {
  char text[40];
  std::snprintf(text, sizeof text, parameters >= 1e9 ? "%.3g B" : "%.3g M", parameters / (parameters >= 1e9 ? 1e9 : 1e6));
  return text;
}

/// How much it matters to hit the size: those whose loss is within one part in a hundred of the least.
std::string flatness(const std::vector<Tried>& sizes, double least) {
  constexpr double kNearlyAsGood = 1.01;
  double low = INFINITY, high = 0;
  for (const auto& size : sizes)
    if (size.trained && size.trained->loss.value <= kNearlyAsGood * least) {
      low = std::min(low, size.trained->model.parameters);
      high = std::max(high, size.trained->model.parameters);
    }
  return low == high ? "none of the other sizes has a loss within 1 % of the least"
                     : "sizes from " + billions(low) + " to " + billions(high) + " have a loss within 1 % of the least";
}

std::string certainty(const BudgetedTraining& training, const Trained& best) {
  const auto size = predict::scaling::best_size(training.law(), best.scale());
  return "the interval of the loss is of what laws fitted to the same runs say, and of steps that may take longer or shorter; losses on "
         "other text and with another vocabulary differ by more. For this compute laws that later work has not superseded ask for " +
         billions(size.low) + " to " + billions(size.high) + " parameters";
}

void add_sizes(Json& result, const std::vector<Tried>& sizes, const BudgetedTraining& training) {
  const auto best = predict::scaling::best_of(sizes);
  if (!best) throw Refusal(sizes.front().refused);
  const auto& chosen = sizes[*best];
  result["best"] = training_json(chosen.model, *chosen.trained, training);
  auto rows = Json::array();
  for (const auto& size : sizes) rows.push_back(size_row(size, chosen.trained->loss.value, training.asks_carbon()));
  result["sizes"] = rows;
  result["flat"] = flatness(sizes, chosen.trained->loss.value);
  result["sure"] = certainty(training, *chosen.trained);
  result["laws"] = laws_json(*chosen.trained);
}

}  // namespace

void BudgetOptions::add_to(CLI::App& app) {
  const OptionGroup group(app, "What a budget buys");
  app.add_option("--budget", budgets,
                 "compute (1e23FLOP), money ($50k), time (3days) or energy (20MWh) that may be spent: how many tokens of a language model "
                 "that is, and its loss; of several kinds all are kept")
      ->take_all();
  app.add_option("--sizes", sizes,
                 "parameters that the model may have: 1B,7B or 1B..64B (doubling); without it those around the best where MODEL leaves its "
                 "sizes open (zoo:llama), else the model's own");
  app.add_option("--law", law, "the scaling law that chooses: besiroglu, hoffmann-3 or kaplan; for --to-loss hestness, too");
}

void BudgetOptions::require_budget() const {
  if (given()) return;
  if (!sizes.empty()) throw BadInput("--sizes " + sizes, "asks what a --budget buys; give one, such as --budget 3days");
  if (law != BudgetOptions{}.law) throw BadInput("--law " + law, "asks what a --budget buys; give one, such as --budget 3days");
}

void require_training_of_all(const std::string& option, const ModelOptions& model) {
  const auto* given = !model.lora.empty() ? "--lora" : !model.freeze.empty() ? "--freeze" : !model.train.empty() ? "--train" : nullptr;
  if (given != nullptr)
    throw BadInput(given, "scaling laws, which " + option +
                              " asks, are of models of which everything is trained from the beginning; leave it out, or give the length "
                              "of the training with --tokens");
}

std::vector<double> sizes_of(const std::string& text) {
  std::vector<double> sizes;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    const double low = size_of_text(text.substr(0, dots), text), high = size_of_text(text.substr(dots + 2), text);
    if (high < low) throw BadInput("--sizes " + text, "ends below where it begins");
    for (double size = low; size < high * (1 - 1e-9); size *= 2) sizes.push_back(size);
    sizes.push_back(high);
  } else {
    for (const auto& value : listed_values("--sizes " + text, text)) sizes.push_back(size_of_text(value, text));
  }
  constexpr std::size_t kMost = 64;
  if (sizes.size() > kMost) throw BadInput("--sizes " + text, "are more than 64 sizes");
  std::ranges::sort(sizes);
  return sizes;
}

Json budget_answer(const BudgetOptions& o, const BudgetQuestion& q, Terminal& terminal) {
  const BudgetedTraining training(o, q);
  auto result = training.heading(terminal);
  if (o.sizes.empty() && !graph::zoo::leaves_size_open(q.model.model)) {
    const auto t = training.trained(q.model.model);
    result["training"] = training_json(q.model.model, t, training);
    result["sure"] = certainty(training, t);
    result["laws"] = laws_json(t);
    return result;
  }
  const auto progress = terminal.progress("sizes");
  double tried = 0;
  const auto next = [&](double parameters) {
    progress->advance("sizes", tried, tried + 1);
    ++tried;
    return training.tried(parameters);
  };
  std::vector<Tried> sizes;
  for (const double parameters : o.sizes.empty() ? std::vector<double>() : sizes_of(o.sizes))
    if (auto size = next(parameters); !predict::scaling::is_among(sizes, size)) sizes.push_back(std::move(size));
  if (sizes.empty()) sizes = predict::scaling::sizes_around(training.first_guess(), next);
  add_sizes(result, sizes, training);
  return result;
}

}  // namespace rehearsal::cli
