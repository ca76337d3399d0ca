#include "cli/resuming.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/parse_number.hpp"
#include "cli/adapter_option.hpp"
#include "cli/plan_context.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::cli {
namespace {

/// Under a plan whose ranks keep something for themselves: whether it is there.
void check_wanted(const plan::Plan& plan, const exec::HeldKept& held, const std::string& where, std::int64_t step,
                  std::vector<std::string>& warnings) {
  const auto* row = plan::compressor(plan.compression.rule);
  const auto of = " for " + plan::to_text(plan);
  if (row == nullptr || !row->remembers)
    return warnings.push_back(where + "what each replica keeps for itself is not in it" + of +
                              ": all go on with the optimizer's state of the first, and an outer momentum that is not there begins at 0");
  if (row->of_moments && !held.not_sent)
    throw Refusal(where + "exact_steps=" + std::to_string(plan.exact_steps) +
                  " takes the second moment for that of so many steps, and the " + "checkpoint has one of " + std::to_string(step) +
                  "; use exact_steps=" + std::to_string(step) + ", or the plan that wrote it");
  warnings.push_back(where + "what ranks had not sent of their gradients is not in it" + of + ", and begins at 0");
}

/// What ranks keep for themselves is there where as many replicas wrote it by a plan of the same kind.
void check_kept(const std::string& folder, std::int64_t step, const exec::Training& training, const exec::TrainedAs& as,
                std::vector<std::string>& warnings) {
  const auto& plan = training.program.plan;
  const auto* row = plan::compressor(plan.compression.rule);
  const bool remembers = row != nullptr && row->remembers, by_themselves = plan.local_steps > 0;
  const auto held = exec::held_kept(folder, training.program, training.graph.graph, as);
  const auto where = "--resume " + folder + ": ", now = " under " + plan::to_text(plan);
  if (!held.all && step > plan.exact_steps) check_wanted(plan, held, where, step, warnings);
  if (held.loses_state && !by_themselves)
    warnings.push_back(where + "each replica had an optimizer's state of its own, and" + now + " all go on with that of the first");
  if (held.loses_not_sent && !remembers) warnings.push_back(where + "what ranks had not sent of their gradients is left out" + now);
  if (held.loses_outer_momentum) warnings.push_back(where + "the outer momentum that it holds is left out" + now);
}

}  // namespace

std::optional<exec::CheckpointHeader> header_to_resume(const std::string& folder, const exec::Training& training,
                                                       std::vector<std::string>& warnings) {
  if (folder.empty()) return std::nullopt;
  const auto header = exec::read_checkpoint_header(folder);
  if (header.batch != training.program.batch)
    warnings.push_back("--resume " + folder + ": the batch was " + std::to_string(header.batch) + " and is " +
                       std::to_string(training.program.batch) + " now; step " + std::to_string(header.step + 1) + " goes on with sample " +
                       std::to_string(header.samples + 1) + ", at the same learning rate");
  return header;
}

namespace {

/// Options whose values are the optimizer's numbers, and those that decide nothing that is kept.
constexpr std::string_view kOfOptimizer[] = {"lr",    "lr-scaling", "base-batch", "momentum",    "nesterov",
                                             "betas", "trust",      "eps",        "weight-decay"};
constexpr std::string_view kRate = "lr";  // a new one is what many go on for

exec::TrainedAs::Texts options_of(const ModelOptions& o) {
  exec::TrainedAs::Texts options{{exec::TrainedAs::kOptimizer, std::string(graph::optimizer_row(o.optimizer).name)}, {"--dtype", o.dtype}};
  for (const auto& [option, values] : training_words(o))
    if (std::ranges::find(kOfOptimizer, option) == std::end(kOfOptimizer) && option != "seed") options["--" + option] = joined(values, ",");
  if (!o.loss.empty()) options["--loss"] = o.loss;
  return options;
}

constexpr const char *kSchedule = "--schedule", *kSamples = "samples of --data", *kChecksum = "checksum of --data";

exec::TrainedAs::Texts course_of(const Course& c, const graph::OptimizerSettings& optimizer) {
  exec::TrainedAs::Texts course{{"--shuffle", c.data.shuffle}, {kSchedule, c.schedule}};
  if (const auto samples = c.source.samples(); samples > 0) course[kSamples] = std::to_string(samples);
  if (auto checksum = c.source.checksum(); !checksum.empty()) course[kChecksum] = std::move(checksum);
  for (const auto& [number, value] : optimizer.values)
    if (number != kRate) course[number] = nlohmann::json(value).dump();
  return course;
}

/// Removes it; empty where it is not there.
std::string taken(exec::TrainedAs::Texts& course, const std::string& name) {
  const auto entry = course.extract(name);
  return entry ? entry.mapped() : std::string();
}

/// Also of data that differ in nothing but what they hold.
std::string differences_of_course(exec::TrainedAs::Texts then, exec::TrainedAs::Texts now) {
  if (!then.contains(kSchedule)) now.erase(kSchedule);  // of an older program, which did not keep it
  const auto was = taken(then, kChecksum), is = taken(now, kChecksum);
  auto text = exec::differences(then, now);
  if (!was.empty() && !is.empty() && was != is && then[kSamples] == now[kSamples])
    text += (text.empty() ? "" : ", ") + std::string("other samples of --data (as many, but the first or the last is not the same)");
  return text;
}

std::vector<std::string> untrained_weights(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const auto& tensor : graph.tensors())
    if (tensor.role == graph::TensorRole::Frozen) names.push_back(tensor.name);
  return names;
}

}  // namespace

exec::TrainedAs trained_as(const ModelOptions& o, const Course& course, const graph::TrainingGraph& training) {
  auto of_batch = o;
  of_batch.batch = training.batch;
  const auto model = load_model(of_batch).graph;
  const auto untrained = untrained_weights(training.graph);
  return {model.hash(),           untrained,     exec::checksum_of_weights(model, untrained),
          adapter_factor(o.lora), options_of(o), course_of(course, training.optimizer)};
}

std::string hash_as_then(ModelOptions o, const exec::CheckpointHeader& header) {
  o.batch = header.batch;
  auto& numbers = o.hyperparameters = graph::completed(optimizer_of(o)).values;
  for (const auto& slot : graph::conditional_slots(graph::optimizer_row(o.optimizer)))
    if (const auto at = header.as.course.find(std::string(slot.only_with)); at != header.as.course.end())
      numbers[at->first] = parse_number<double>(at->second).value_or(numbers[at->first]);
  if (numbers.contains("nesterov")) numbers["nesterov"] = 0;            // keeps nothing, and wants a momentum
  o.lr = o.momentum = o.weight_decay = o.trust = o.eps = std::nullopt;  // they are among those
  o.betas.clear();
  o.nesterov = "off";
  std::vector<std::string> ignored;
  return load_training(o, ignored, ModelUse::Train).hash();
}

void warn_of_other_course(const std::string& folder, const exec::CheckpointHeader& header, const exec::Training& training,
                          const exec::TrainedAs& now, std::vector<std::string>& warnings) {
  check_kept(folder, header.step, training, now, warnings);
  if (!header.as.known()) return;
  auto text = differences_of_course(header.as.course, now.course);
  const auto slots = exec::other_slots(header.as, now);
  if (!slots.begin.empty()) text += "; its optimizer kept no " + joined(slots.begin, " and no ") + ", which begins at 0";
  if (!slots.end.empty()) text += "; the " + joined(slots.end, " and the ") + " that its optimizer kept is left out";
  if (!text.empty()) warnings.push_back("--resume " + folder + ": was trained with " + text);
}

void take_trained(ModelOptions& o, const exec::CheckpointHeader& header, const std::string& folder, std::vector<std::string>& warnings) {
  const auto asking = "--checkpoint " + folder;
  if (!o.typed.contains("seed")) o.seed = header.seed;
  if (o.seed != header.seed)
    throw BadInput("--seed " + std::to_string(o.seed),
                   asking + " was made with --seed " + std::to_string(header.seed) + "; give the same, or leave it out");
  auto of_batch = o;
  of_batch.batch = header.batch;
  const auto model = load_model(of_batch).graph;
  exec::require_same_weights(header.as, {"", {}, exec::checksum_of_weights(model, header.as.untrained), adapter_factor(o.lora), {}, {}},
                             asking);
  if (header.as.known() && header.as.network != model.hash())
    warnings.push_back(asking + ": the weights have the shapes of this model, but it is another network than the one that was trained");
}

}  // namespace rehearsal::cli
