#include "cli/plan_context.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <variant>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/short_number.hpp"
#include "plan/plan_keys.hpp"

namespace rehearsal::cli {

std::vector<std::string> arguments_of(const plan::Words& words) {
  std::vector<std::string> arguments;
  for (const auto& [name, values] : words)
    for (const auto& value : values) arguments.push_back("--" + name + "=" + value);
  return arguments;
}

namespace {

template <typename Options>
using Member = std::variant<std::string Options::*, std::vector<std::string> Options::*, std::optional<double> Options::*,
                            std::optional<std::int64_t> Options::*, std::uint64_t Options::*>;

template <typename Options>
struct KeptSetting {
  const char* option;
  Member<Options> member;
};

using M = ModelOptions;
constexpr std::array kTraining{KeptSetting<M>{"bind", &M::binds},
                               KeptSetting<M>{"target", &M::target},
                               KeptSetting<M>{"freeze", &M::freeze},
                               KeptSetting<M>{"train", &M::train},
                               KeptSetting<M>{"lora", &M::lora},
                               KeptSetting<M>{"dropout", &M::dropout},
                               KeptSetting<M>{"lr", &M::lr},
                               KeptSetting<M>{"lr-scaling", &M::lr_scaling},
                               KeptSetting<M>{"base-batch", &M::base_batch},
                               KeptSetting<M>{"momentum", &M::momentum},
                               KeptSetting<M>{"nesterov", &M::nesterov},
                               KeptSetting<M>{"betas", &M::betas},
                               KeptSetting<M>{"trust", &M::trust},
                               KeptSetting<M>{"eps", &M::eps},
                               KeptSetting<M>{"weight-decay", &M::weight_decay},
                               KeptSetting<M>{"clip-norm", &M::clip_norm},
                               KeptSetting<M>{"clip-value", &M::clip_value},
                               KeptSetting<M>{"loss-scale", &M::loss_scale},
                               KeptSetting<M>{"seed", &M::seed}};

using P = PlatformOptions;
constexpr std::array kPlace{KeptSetting<P>{"platform", &P::platform}, KeptSetting<P>{"nodes", &P::nodes},
                            KeptSetting<P>{"devices", &P::devices}, KeptSetting<P>{"machine", &P::machine}};
constexpr std::array kHow{KeptSetting<P>{"recipe", &P::recipe}, KeptSetting<P>{"imbalance", &P::imbalance}};

struct Printed {
  std::vector<std::string> operator()(const std::string& text) const { return {text}; }
  std::vector<std::string> operator()(const std::vector<std::string>& texts) const { return texts; }
  std::vector<std::string> operator()(const std::optional<double>& number) const { return {shortest_number(*number)}; }
  std::vector<std::string> operator()(const std::optional<std::int64_t>& number) const { return {std::to_string(*number)}; }
  std::vector<std::string> operator()(std::uint64_t number) const { return {std::to_string(number)}; }
};

/// Those that differ from the default.
template <typename Options, std::size_t kCount>
void add_words(plan::Words& words, const std::array<KeptSetting<Options>, kCount>& rows, const Options& o) {
  static const Options kDefault;
  for (const auto& row : rows)
    std::visit(
        [&](auto member) {
          if (o.*member != kDefault.*member) words[row.option] = Printed()(o.*member);
        },
        row.member);
}

/// Reads the words as the command line would.
void parse(CLI::App& app, const plan::Words& words, const std::string& key) {
  auto arguments = arguments_of(words);
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    throw BadInput("the plan file's context." + key, error.what());
  }
}

bool has_any(const plan::Words& words, const std::string& name) { return words.contains(name) && !words.at(name).empty(); }

}  // namespace

plan::Words training_words(const ModelOptions& o) {
  plan::Words words;
  add_words(words, kTraining, o);
  return words;
}

std::string optimizer_text(const ModelOptions& o) {
  std::string text = o.optimizer;
  for (const auto& [key, value] : o.hyperparameters) text += (text == o.optimizer ? ":" : ",") + key + "=" + shortest_number(value);
  return text;
}

plan::Words place_words(const PlatformOptions& o, const std::string& framework) {
  plan::Words words;
  add_words(words, kPlace, o);
  add_words(words, kHow, o);
  words["framework"] = {framework};
  return words;
}

void take_context(ModelOptions& o, const plan::PlanContext& context) {
  auto words = context.training;
  words["dtype"] = {context.dtype};
  if (context.batch > 0) words["batch"] = {std::to_string(context.batch)};
  if (!context.loss.empty() && context.loss != "auto") words["loss"] = {context.loss};
  if (!context.optimizer.empty()) words["optimizer"] = {context.optimizer};
  std::erase_if(words, [&](const auto& word) { return o.typed.contains(word.first); });
  if (o.batch) words.erase("batch");
  CLI::App app;
  ModelOptions& taken = o;
  auto typed = o.typed;
  taken.add_sizes_to(app);
  taken.add_training_to(app);
  parse(app, words, "training");
  o.typed = std::move(typed);
  if (o.model.empty()) o.model = context.model;
}

void take_place(PlatformOptions& o, const plan::PlanContext& context) {
  auto words = context.searched_on;
  const auto drop = [&words](const auto& rows) {
    for (const auto& row : rows) words.erase(row.option);
  };
  if (!o.platform.empty() || o.nodes || o.devices) drop(kPlace);
  if (!o.machine.empty()) words.erase("machine");
  if (!o.framework.empty()) drop(kHow), words.erase("framework");
  if (!o.recipe.empty()) words.erase("recipe");
  if (!o.imbalance.empty()) words.erase("imbalance");
  if (!has_any(words, "platform")) drop(kPlace);
  CLI::App app;
  app.add_option("--platform", o.platform);
  app.add_option("--nodes", o.nodes);
  app.add_option("--devices", o.devices);
  app.add_option("--machine", o.machine);
  app.add_option("--framework", o.framework);
  app.add_option("--recipe", o.recipe);
  app.add_option("--imbalance", o.imbalance);
  parse(app, words, "searched_on");
}

std::string made_for(const plan::PlanContext& context) {
  std::string text =
      context.model + " with --batch " + std::to_string(context.batch) + " --loss " + context.loss + " --dtype " + context.dtype;
  if (!context.optimizer.empty()) text += " --optimizer " + context.optimizer;
  for (const auto& argument : arguments_of(context.training)) text += " " + argument;
  return text;
}

namespace {

/// What is trained, had it the default optimizer.
std::string hash_with_default_optimizer(ModelOptions model) {
  const ModelOptions plain;
  std::tie(model.optimizer, model.hyperparameters, model.betas, model.nesterov, model.loss_scale) =
      std::tie(plain.optimizer, plain.hyperparameters, plain.betas, plain.nesterov, plain.loss_scale);
  std::tie(model.lr, model.lr_scaling, model.base_batch, model.momentum, model.weight_decay, model.trust, model.eps, model.clip_norm,
           model.clip_value) = std::tie(plain.lr, plain.lr_scaling, plain.base_batch, plain.momentum, plain.weight_decay, plain.trust,
                                        plain.eps, plain.clip_norm, plain.clip_value);
  std::vector<std::string> ignored;
  return load_training(model, ignored, ModelUse::Train).hash();
}

}  // namespace

void require_no_order_of_nodes(const plan::Plan& plan) {
  const auto* fill = plan::find_plan_key("fill");
  if (plan::is_set(*fill, plan))
    throw Refusal("plan: fill=" + fill->print(plan) +
                  ": which ranks are on which nodes is decided where they are started; list the hosts of these nodes first (mpirun "
                  "--hostfile), and leave the key out");
}

plan::Plan plan_to_train(const ModelOptions& o, const std::string& text, const graph::TrainingGraph& training,
                         std::vector<std::string>& warnings) {
  auto file = plan_argument(text);
  require_no_order_of_nodes(file.plan);
  const auto& hash = file.context.model_hash;
  if (hash.empty() || hash == training.hash()) return file.plan;
  if (hash_with_default_optimizer(o) != hash) return plan_for(text, training);
  warnings.push_back(text + " was searched for the default optimizer, and " + o.optimizer +
                     " trains now: memory and times are others than it was chosen by");
  return file.plan;
}

}  // namespace rehearsal::cli
