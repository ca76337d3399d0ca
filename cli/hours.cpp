#include "cli/hours.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "costmodel/money.hpp"
#include "predict/hours/starts.hpp"
#include "predict/plan_input.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

predict::MovableTraining movable(const predict::Assessment& a, double steps, const platforms::Platform& platform) {
  predict::MovableTraining training;
  auto cost = predict::training_cost(a, steps);
  training.length = a.step * steps;
  training.devices = costmodel::paid_devices(platform, a.ranks);
  if (a.goodput) {
    const auto& run = a.goodput->run;
    cost = a.goodput->cost;
    training.length = a.goodput->finished;
    training.devices += a.goodput->spares;
    training.pause = run.step * run.every / 2 + a.goodput->disturbances.restarting;  // a pause comes in the middle of a piece, in the mean
  }
  training.power = Watts(cost.energy.value() / training.length.value());
  training.kilograms = cost.carbon_kg;
  training.money = cost.money;
  return training;
}

}  // namespace

Json hours_json(const std::string& path, const predict::Assessment& a, double steps, const platforms::Platform& platform) {
  if (steps <= 1)
    throw BadInput("--hours", "is about a whole training, and one step is none: give more with --steps, --tokens or --epochs");
  const auto hours = predict::read_hours_file(path);
  auto rows = Json::array();
  for (const auto& way : predict::timed_starts(hours, movable(a, steps, platform)))
    rows.push_back({{"region", way.region},
                    {"rule", way.rule},
                    {"start", hours.names[way.line % hours.names.size()]},
                    {"starts_after_seconds", way.begins.value()},
                    {"finished_seconds", way.finished.value()},
                    {"pauses", way.pauses},
                    {"carbon_kg", way.carbon_kg},
                    {"cost_dollars", way.cost.value()}});
  return rows;
}

}  // namespace rehearsal::cli
