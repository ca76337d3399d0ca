#include "cli/input_json.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "cli/assessment_json.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;
using costmodel::Interval;

/// A step that its input makes longer by less than that is not bound by it.
constexpr double kNoticed = 0.01;

bool is_bound(const predict::InputTimes& times, const Interval& computing) {
  return times.step(computing).value > (1 + kNoticed) * computing.value;
}

/// How long the samples of a step take, whatever computes meanwhile.
Interval seconds_of(const predict::InputTimes& times) { return times.step({}); }

std::string sentence(const predict::InputTimes& times, const Interval& computing, const std::string& when) {
  const auto samples = to_text(Seconds(seconds_of(times).value)), alone = to_text(Seconds(computing.value));
  if (!is_bound(times, computing)) return when + "input is hidden: the samples of a step take " + samples + ", computing " + alone;
  return when + "steps are bound by " + std::string(name(times.bound_by(computing))) + ": the samples of one take " + samples +
         ", computing " + alone + ", the step " + to_text(Seconds(times.step(computing).value));
}

/// Which of the two steps the answer is about.
std::string whose_step(const predict::PlanInput& input) {
  if (input.steps == 0) return "the answer is about a step behind the first epoch, since it is not said how long is trained";
  const auto first = input.first_steps();
  if (input.steps == 1) return "the answer is about one step, of the first epoch";
  const auto share = first == input.steps ? "all" : std::to_string(std::llround(first));
  return "the answer is about the mean of " + std::to_string(std::llround(input.steps)) + " steps, " + share +
         " of them in the first epoch";
}

Json times_json(const predict::InputTimes& times, const Interval& computing) {
  Json j{{"seconds", to_json(seconds_of(times))}, {"bound", is_bound(times, computing)}};
  if (is_bound(times, computing)) j["bound_by"] = name(times.bound_by(computing));
  j["waiting_seconds"] = times.step(computing).value - computing.value;
  for (std::size_t p = 0; p < times.parts.size(); ++p)
    if (times.parts[p].value > 0) j[std::string(predict::kInputPartKeys[p]) + "_seconds"] = times.parts[p].value;
  j["from"] = Json{{"own_cache", times.from.own}, {"caches_of_peers", times.from.peers}, {"storage", times.from.storage}};
  return j;
}

}  // namespace

std::string sentence_of_input(const predict::Assessment& a) {
  const auto& input = *a.input;
  auto says = sentence(input.step.later, input.computing, "");
  if (seconds_of(input.step.first).value == seconds_of(input.step.later).value) return says;
  return says + "; " + sentence(input.step.first, input.computing, "in the first epoch ") + "; " + whose_step(input);
}

Json input_json(const predict::Assessment& a) {
  const auto& input = *a.input;
  Json j{{"says", sentence_of_input(a)}};
  j.update(times_json(input.step.later, input.computing));
  j["step_seconds"] = to_json(input.later);
  j["computing_seconds"] = to_json(input.computing);
  j["bytes"] = input.step.bytes.value();
  auto first = times_json(input.step.first, input.computing);
  first["steps"] = input.step.epoch_steps;
  first["step_seconds"] = to_json(input.first_epoch_step());
  j["first_epoch"] = first;
  j["rests_on"] = input.rests_on;
  return j;
}

}  // namespace rehearsal::cli
