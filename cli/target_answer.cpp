#include "cli/target_answer.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "base/parse_number.hpp"
#include "base/statistics.hpp"
#include "cli/assessment_json.hpp"
#include "cli/budget_answer.hpp"
#include "cli/help/help_page.hpp"
#include "cli/mixed_frameworks.hpp"
#include "cli/short_search.hpp"
#include "cli/training_curve.hpp"
#include "cli/vary.hpp"
#include "predict/scaling/batch_return.hpp"
#include "predict/scaling/return_picture.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;
using predict::scaling::BatchReturn;
using predict::scaling::Reached;

/// 0.94 or 94 %.
double accuracy_of(const std::string& text) {
  std::string_view rest = text;
  const auto number = take_number<double>(rest);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const double share = number ? *number / (rest == "%" ? 100 : 1) : 0;
  if (!number || (!rest.empty() && rest != "%") || !(share > 0) || !(share <= 1))
    throw BadInput("--to-accuracy " + text, "must be a share of the samples, above 0 and at most 1: 0.94 or 94%");
  return share;
}

/// "512:4800,1024:2700": a batch, and the steps that it took.
std::vector<Reached> reached_by(const std::string& text) {
  std::vector<Reached> all;
  for (const auto& one : split(text, ',')) {
    const auto colon = std::min(one.find(':'), one.size());
    const auto batch = parse_number<double>(std::string_view(one).substr(0, colon)),
               steps = colon < one.size() ? parse_number<double>(std::string_view(one).substr(colon + 1)) : std::nullopt;
    if (!batch || !steps || !(*batch >= 1) || !(*steps > 0) || !std::isfinite(*batch * *steps))
      throw BadInput("--reached " + text, "write BATCH:STEPS of every training, as in 512:4800,1024:2700");
    all.push_back({*batch, *steps});
  }
  return all;
}

/// How steps follow from the batch, and what says so.
struct KnownReturn {
  BatchReturn value;
  std::string rests_on;
  Json curves = Json::array();
  std::string far = {};  ///< outside of what a law was fitted to
};

class TargetedTraining {
 public:
  TargetedTraining(const TargetOptions& o, const TargetQuestion& q) : options_(o), question_(q) {
    if (o.loss && !o.accuracy.empty()) throw BadInput("--to-loss", "and --to-accuracy exclude each other: a training ends at one target");
    if (o.loss && !(*o.loss > 0 && std::isfinite(*o.loss))) throw BadInput("--to-loss", "must be a finite loss above 0");
    if (!o.accuracy.empty()) accuracy_ = accuracy_of(o.accuracy);
    if (!o.curves.empty() && !o.loss && !accuracy_)
      throw BadInput("--curves " + o.curves.front(), "says nothing without a target; give --to-loss or --to-accuracy");
    if (knows_trainings() && q.law != BudgetOptions{}.law)
      throw BadInput("--law " + q.law, "is for language models of which no training is given; leave out --curves and --reached, or --law");
    if (!o.picture.empty()) require_place(o.picture);
    if (o.devices_follow && (!q.platform.devices || !q.model.batch))
      throw BadInput("--devices-follow", "takes the devices of a sample from --devices and --batch; give both");
    if (o.devices_follow && q.platform.nodes)
      throw BadInput("--nodes", "follows from the devices of every batch beside --devices-follow; leave it out");
    if (o.devices_follow && !q.platform.plan.empty())
      throw BadInput("--devices-follow", "lets the devices be others for every batch, and --plan is for one number of them; leave it out");
  }

  [[nodiscard]] std::string target() const {
    if (options_.loss) return "loss " + Json(*options_.loss).dump();
    return accuracy_ ? "accuracy " + Json(*accuracy_).dump() : "the target of --reached";
  }
  [[nodiscard]] Json target_json() const {
    if (options_.loss) return {{"loss", *options_.loss}};
    return accuracy_ ? Json{{"accuracy", *accuracy_}} : Json{{"reached", options_.reached}};
  }

  [[nodiscard]] KnownReturn known() const {
    if (!knows_trainings()) return by_law();
    KnownReturn k;
    std::vector<Reached> all = options_.reached.empty() ? std::vector<Reached>() : reached_by(options_.reached);
    std::vector<double> critical;
    for (const auto& file : options_.curves) {
      const auto curve = curve_of(file);
      const double steps = options_.loss ? steps_to_loss(curve, *options_.loss) : steps_to_accuracy(curve, accuracy_.value());
      all.push_back({curve.batch, steps});
      k.curves.push_back({{"file", file}, {"batch", curve.batch}, {"steps", steps}});
      if (const auto measured = critical_batch(curve, steps)) {
        critical.push_back(*measured);
        k.curves.back()["critical_batch"] = *measured;
      }
    }
    const bool alike = std::ranges::all_of(all, [&](const Reached& r) { return r.batch == all.front().batch; });
    if (alike && critical.empty())
      throw BadInput(options_.curves.empty() ? "--reached " + options_.reached : "--curves " + options_.curves.front(),
                     "is of one batch size, which does not say what another takes; add a training with another batch, or one that ran with "
                     "--noise-scale");
    if (alike) {
      std::vector<double> steps;
      for (const auto& training : all) steps.push_back(training.steps);
      k.value = predict::scaling::through({all.front().batch, mean_of(steps)}, mean_of(critical));
      k.rests_on = "trainings with one batch, and the gradient noise scale that was measured in them";
    } else {
      k.value = predict::scaling::fitted(all);
      k.rests_on = std::to_string(all.size()) + " trainings that came to the target";
    }
    return k;
  }

 private:
  [[nodiscard]] bool knows_trainings() const { return !options_.curves.empty() || !options_.reached.empty(); }

  /// Of language models.
  [[nodiscard]] KnownReturn by_law() const {
    require_training_of_all("--to-loss", question_.model);
    if (!options_.loss)
      throw BadInput("--to-accuracy " + options_.accuracy,
                     "no law says when; give trainings that came there: --curves METRICS.jsonl, or --reached BATCH:STEPS,BATCH:STEPS");
    const auto& law = predict::scaling::known_law("--law", question_.law, predict::scaling::AskedOfLaw::Loss);
    const auto facts = predict::scaling::language_model(load_model(question_.model).graph, question_.model.model);
    require_something_to_learn(facts.words);
    const double tokens = predict::scaling::tokens_to(law, facts, *options_.loss),
                 critical = predict::scaling::LawInBatches(law, facts).critical(*options_.loss);
    KnownReturn k;
    k.value = {tokens / critical, tokens / facts.tokens_per_sample, 0};
    k.rests_on = "the tokens of the law of " + std::string(law.name) + " (losses of " + std::string(law.data) +
                 "), taken for those of small batches, and the critical batch of language models at that loss (Kaplan et al. 2020)";
    k.far = predict::scaling::outside(law, facts.scale(tokens));
    return k;
  }

  /// A model that has learned nothing takes all words of its vocabulary for equally likely.
  void require_something_to_learn(std::int64_t words) const {
    const double untrained = std::log(static_cast<double>(words));
    if (*options_.loss < untrained) return;
    std::ostringstream text;
    text.precision(3);
    text << "is the loss before a training: of " << words << " tokens that are equally likely it is " << untrained << "; give a lower one";
    throw BadInput("--to-loss " + Json(*options_.loss).dump(), text.str());
  }

  const TargetOptions& options_;
  const TargetQuestion& question_;
  std::optional<double> accuracy_;
};

/// Those asked for, or doublings around that of --batch.
std::vector<std::int64_t> batches_of(const TargetOptions& o, std::int64_t usual) {
  std::vector<std::int64_t> batches;
  if (o.batches.empty()) {
    constexpr std::int64_t kSmallest = 8, kLargest = 16;
    for (std::int64_t batch = std::max<std::int64_t>(1, usual / kSmallest); batch <= usual * kLargest; batch *= 2) batches.push_back(batch);
    return batches;
  }
  for (const auto& value : listed_values("--batches " + o.batches, o.batches)) {
    const auto batch = parse_number<std::int64_t>(value);
    if (!batch || *batch < 1)
      throw BadInput("--batches " + o.batches, "write whole numbers above 0: 64,256, or 64..4096 for every doubling");
    batches.push_back(*batch);
  }
  std::ranges::sort(batches);
  batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
  return batches;
}

/// The question with as many devices for a sample as --batch has.
PlatformOptions with_devices_of(const TargetQuestion& q, std::int64_t batch) {
  auto platform = q.platform;
  platform.devices = std::max<std::int64_t>(1, *q.platform.devices * batch / *q.model.batch);
  return platform;
}

/// The plan that is given, else the quickest of a short search.
plan::Plan plan_of(JobSetup& setup, const ModelOptions& model, const PlatformOptions& platform) {
  return platform.plan.empty() ? best_of_few(setup, "time") : setup.plan(model, platform).plan;
}

/// What one batch size takes.
Json row_of(const TargetQuestion& q, const PlatformOptions& platform, std::int64_t batch, const BatchReturn& known) {
  Json row{{"batch", batch}};
  constexpr double kRounding = 1e-9;
  const double steps = std::max(1.0, std::ceil(known.steps(static_cast<double>(batch)) * (1 - kRounding)));
  row["steps"] = steps;
  row["samples"] = steps * static_cast<double>(batch);
  if (known.least_samples > 0) row["samples_over_least"] = known.samples(static_cast<double>(batch)) / known.least_samples;
  try {
    auto model = q.model;
    model.batch = batch;
    JobSetup setup(model, platform);
    const auto plan = plan_of(setup, model, platform);
    auto a = predict::mean_of_training(assess(setup.predictor(), plan, q.fidelity, nullptr), steps);
    if (!a.may_fit()) throw Refusal("plan " + plan::to_text(plan) + " " + predict::shortage(a));
    a.goodput = predict::goodput_of(a, setup.platform_for(a.plan), q.goodput.question(steps, "--batches " + std::to_string(batch)));
    const auto all = to_json(a, steps);
    row["devices"] = platforms::device_count(setup.platform());
    row["plan"] = all.at("plan");
    row["framework"] = a.framework;
    row["out_of_memory_chance"] = all.at("out_of_memory_chance");
    row["step_seconds"] = all.at("step_seconds").at("value");
    row["total_seconds"] = all.at(steps > 1 ? "total_seconds" : "step_seconds");
    if (a.goodput) row["finished_seconds"] = all.at("goodput").at("finished_seconds");
    for (const char* key : {"energy_joules", "cost_dollars"}) row[key] = all.at(key).at("value");
    if (q.platform.costs.grams_per_kilowatt_hour) row["carbon_kg"] = all.at("carbon_kg").at("value");
  } catch (const Refusal& refusal) {
    row["refused"] = refusal.what();
  }
  return row;
}

double seconds_of(const Json& row) { return row.at("total_seconds").at("value").get<double>(); }

/// What each saves and costs over the last one before it that can be trained.
void add_differences(Json& rows) {
  const Json* before = nullptr;
  for (auto& row : rows) {
    if (row.contains("refused")) continue;
    if (before != nullptr) {
      row["time_saved_share"] = 1 - seconds_of(row) / seconds_of(*before);
      row["cost_added_share"] = row.at("cost_dollars").get<double>() / before->at("cost_dollars").get<double>() - 1;
    }
    before = &row;
  }
}

/// The batches of least time, money and energy.
void add_best(Json& result, const Json& rows) {
  const Json *quickest = nullptr, *cheapest = nullptr, *thriftiest = nullptr;
  const auto better = [](const Json& a, const Json* b, const char* key) {
    return b == nullptr || a.at(key).get<double>() < b->at(key).get<double>();
  };
  for (const auto& row : rows) {
    if (row.contains("refused")) continue;
    if (quickest == nullptr || seconds_of(row) < seconds_of(*quickest)) quickest = &row;
    if (better(row, cheapest, "cost_dollars")) cheapest = &row;
    if (better(row, thriftiest, "energy_joules")) thriftiest = &row;
  }
  if (quickest == nullptr) throw Refusal(rows.front().at("refused").get<std::string>());
  result["quickest_batch"] = quickest->at("batch");
  result["cheapest_batch"] = cheapest->at("batch");
  result["least_energy_batch"] = thriftiest->at("batch");
}

void draw(const std::string& file, const Json& rows, const BatchReturn& known, const std::string& target) {
  std::vector<predict::scaling::BatchPoint> points;
  for (const auto& row : rows)
    if (!row.contains("refused")) points.push_back({row.at("batch").get<double>(), seconds_of(row), row.at("cost_dollars").get<double>()});
  const double critical = known.critical_batch();
  write_file_atomically(file, predict::scaling::to_svg(points, std::isfinite(critical) ? std::optional(critical) : std::nullopt, target));
}

}  // namespace

void TargetOptions::add_to(CLI::App& app) {
  const OptionGroup group(app, "What a target takes");
  app.add_option("--to-loss", loss,
                 "the loss that ends the training: steps, time, energy and money until then, for batches of several sizes");
  app.add_option("--to-accuracy", accuracy, "the accuracy on held-out data that ends it: 0.94 or 94%");
  app.add_option("--curves", curves,
                 "metrics of trainings that came to the target (run --metrics): one with --noise-scale, or several with batches of several "
                 "sizes; without any a scaling law says when a language model comes to a loss")
      ->take_all();
  app.add_option("--reached", reached, "BATCH:STEPS,... of trainings that came to the target, measured or published");
  app.add_option("--batches", batches, "sizes to ask about: 64,256 or 64..4096 (doubling); without it doublings around --batch");
  app.add_flag("--devices-follow", devices_follow, "larger batches on more devices: as many for a sample as --devices for --batch");
  app.add_option("--svg", picture, "where to draw what larger batches save and cost");
}

void TargetOptions::require_target() const {
  if (given()) return;
  const auto refuse = [](bool stands, const std::string& option) {
    if (stands) throw BadInput(option, "asks what a target takes; give one: --to-loss, --to-accuracy or --reached");
  };
  refuse(!curves.empty(), "--curves");
  refuse(!batches.empty(), "--batches " + batches);
  refuse(devices_follow, "--devices-follow");
  refuse(!picture.empty(), "--svg " + picture);
}

Json target_answer(const TargetOptions& o, const TargetQuestion& q, Terminal& terminal) {
  const TargetedTraining training(o, q);
  const auto known = training.known();
  const JobSetup setup(q.model, q.platform);
  for (const auto& warning : setup.warnings()) terminal.warn(warning);
  auto result = setup.heading(q.model);
  result["target"] = training.target_json();
  const double critical = known.value.critical_batch();
  result["critical_batch"] = std::isfinite(critical) ? Json(critical) : Json(nullptr);
  result["least_steps"] = known.value.least_steps;
  result["least_samples"] = known.value.least_samples;
  result["rests_on"] = known.rests_on;
  constexpr double kRoundingOfFit = 1e-9;
  if (known.value.misfit > kRoundingOfFit) result["misfit_share"] = known.value.misfit;
  if (known.value.least_samples == 0 && known.value.misfit > kRoundingOfFit)
    terminal.warn(
        "larger batches took no fewer steps in the trainings that are given: what is said of other batches is not to be relied on");
  if (!known.curves.empty()) result["curves"] = known.curves;
  if (!known.far.empty()) result["outside_of_fit"] = known.far;
  const auto batches = batches_of(o, setup.predictor().batch());
  const auto progress = terminal.progress("batches");
  auto rows = Json::array();
  for (const auto batch : batches) {
    progress->advance("batches", static_cast<double>(rows.size()), static_cast<double>(batches.size()));
    rows.push_back(row_of(q, o.devices_follow ? with_devices_of(q, batch) : q.platform, batch, known.value));
  }
  leave_out_one_framework(rows, result.at("framework"));
  if (const auto mixed = mixed_frameworks(frameworks_of(rows)); !mixed.empty()) terminal.warn(mixed);
  add_differences(rows);
  add_best(result, rows);
  result["batches"] = rows;
  if (o.picture.empty()) return result;
  draw(o.picture, rows, known.value, training.target());
  result["picture"] = o.picture;
  return result;
}

}  // namespace rehearsal::cli
