#include "cli/goodput_options.hpp"

#include <cmath>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "cli/assessment_json.hpp"
#include "cli/help/help_page.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class Q>
std::optional<Q> quantity(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    return parse_quantity<Q>(text);
  } catch (const BadInput& refusal) {
    throw BadInput(option, refusal.what());
  }
}

Json scaled_by(const costmodel::Interval& by, double value) {
  return {{"value", value}, {"low", value * by.low / by.value}, {"high", value * by.high / by.value}};
}

}  // namespace

predict::CheckpointEvery checkpoint_every(const std::string& text) {
  constexpr double kMostSteps = 1e15;
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  if (number && unit.empty() && *number >= 0 && *number < kMostSteps && *number == std::floor(*number))
    return {static_cast<std::int64_t>(*number), std::nullopt};
  try {
    if (const auto time = parse_quantity<Seconds>(text); time.value() > 0) return {std::nullopt, time};
  } catch (const BadInput&) {
    unit = {};  // said below
  }
  throw BadInput("--checkpoint-every " + text, "write a number of steps such as 500, or a time such as 90s, 10min or 2h");
}

void GoodputOptions::add_to(CLI::App& app) {
  const OptionGroup group(app, "Failures and checkpoints");
  app.add_option("--failures", failures, "of a device in a day, over what the platform says (time_between_failures)");
  app.add_option(
      "--checkpoint-every", every,
      "between checkpoints: steps such as 500, or a time such as 10min; 0: only at the end (default: what lets the training end first)");
  app.add_option("--checkpoint-wait", wait, "time that training waits for one checkpoint, such as 5s (default: until its state is copied)");
  app.add_option("--restart", restart, "time from a failure until training begins again on nodes that are there, such as 10min");
  app.add_option("--replacement", replacement, "time until a node that failed is repaired or replaced, such as 4h");
  app.add_option("--storage", storage, "rate at which one node writes checkpoints while all do, such as 2GB/s");
  app.add_option("--spares", spares, "devices of the platform that the plan leaves free for nodes that fail");
}

bool GoodputOptions::given() const {
  const auto stands = [](const std::string& text) { return !text.empty(); };
  return failures || spares != 0 || stands(every) || stands(wait) || stands(restart) || stands(replacement) || stands(storage);
}

predict::GoodputQuestion GoodputOptions::question(double steps, const std::string& steps_follow_from) const {
  if (given() && steps <= 1)
    throw Refusal(steps_follow_from +
                  ": one step at most, with what failures and checkpoints take; --failures, --checkpoint-every and the like are " +
                  "about a whole training: ask for a longer one, or leave them out");
  return question(steps);
}

predict::GoodputQuestion GoodputOptions::question(double steps) const {
  predict::GoodputQuestion q;
  q.steps = steps;
  if (!every.empty()) q.every = checkpoint_every(every);
  q.failures_per_device_day = failures;
  q.wait = quantity<Seconds>("--checkpoint-wait", wait);
  q.restart = quantity<Seconds>("--restart", restart);
  q.replacement = quantity<Seconds>("--replacement", replacement);
  q.storage = quantity<BytesPerSecond>("--storage", storage);
  q.spares = spares;
  return q;
}

Json goodput_json(const predict::Assessment& a) {
  const auto& g = *a.goodput;
  const auto& d = g.disturbances;
  const auto finished = predict::finished_seconds(a, g);
  Json j{{"effective", g.effective()},
         {"finished_seconds", to_json(finished)},
         {"by_chance_seconds", to_json(predict::finish(g.run, g.disturbances))},
         {"failures", g.failures}};
  if (g.failures > 0) j["between_failures_seconds"] = d.between_failures.value();
  j["restart_seconds"] = (d.restarting + d.waiting * d.waits).value();
  j["checkpoint_steps"] = static_cast<std::int64_t>(g.run.every);
  j["checkpoint_interval_seconds"] = (g.run.step * g.run.every).value();
  if (g.failures > 0) {
    j["young_interval_seconds"] = predict::young_interval(d.copying, d.between_failures).value();
    j["daly_interval_seconds"] = predict::daly_interval(d.copying, d.between_failures).value();
  }
  j["checkpoint_size_bytes"] = g.checkpoint.value();
  j["checkpoint_seconds"] = g.writing.value();
  j["checkpoint_wait_seconds"] = d.copying.value();
  j["energy_joules"] = scaled_by(finished, g.cost.energy.value());
  j["cost_dollars"] = scaled_by(finished, g.cost.money.value());
  j["carbon_kg"] = scaled_by(finished, g.cost.carbon_kg);
  j["rests_on"] = g.rests_on;
  return j;
}

}  // namespace rehearsal::cli
