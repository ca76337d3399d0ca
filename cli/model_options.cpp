#include "cli/model_options.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>

#include <CLI/CLI.hpp>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "cli/adapter_option.hpp"
#include "cli/counts.hpp"
#include "cli/help/help_page.hpp"
#include "cli/spelling.hpp"
#include "formats/hugging_face/hugging_face_model.hpp"
#include "formats/onnx/model_import.hpp"
#include "graph/loss_scaling.hpp"
#include "graph/narrow_type.hpp"
#include "graph/zoo/zoo.hpp"

namespace rehearsal::cli {
namespace {

std::string known_arithmetics() { return joined(arithmetic_rows(), ", ", &ArithmeticRow::name); }

/// The names of options that are written go into the set, whatever their values.
void note_typed(CLI::App& app, std::set<std::string>& typed) {
  for (auto* option : app.get_options())
    if (!option->get_lnames().empty()) option->each([&typed, name = option->get_single_name()](const std::string&) { typed.insert(name); });
}

std::int64_t bind_value(const std::string& text, std::string& name) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) throw BadInput("--bind " + text, "write NAME=VALUE, for example --bind seq=128");
  name = text.substr(0, equals);
  const auto value = parse_number<std::int64_t>(std::string_view(text).substr(equals + 1));
  if (value && *value > 0) return *value;
  throw BadInput("--bind " + text, "the value must be a whole number above 0");
}

void set_betas(const std::string& betas, std::map<std::string, double>& values) {
  double first = 0, second = 0;
  char comma = 0;
  std::istringstream in(betas);
  if (!(in >> first >> comma >> second) || comma != ',' || !(in >> std::ws).eof())
    throw BadInput("--betas " + betas, "write two numbers, for example --betas 0.9,0.999");
  values["beta1"] = first;
  values["beta2"] = second;
}

bool on(const std::string& flag, const std::string& value) {
  if (value == "on") return true;
  if (value == "off") return false;
  throw BadInput(flag + " " + value, "use on or off");
}

double clipping_of(const std::string& flag, const std::optional<double>& most) {
  if (!most) return 0;
  if (!(*most > 0) || !std::isfinite(*most)) throw BadInput(flag, "must be a finite number above 0");
  return *most;
}

graph::LossScale loss_scale_of(const ModelOptions& o) {
  if (o.loss_scale.empty()) return {};
  if (o.loss_scale == "dynamic") return {graph::kFirstLossScale, true};
  const auto scale = parse_number<double>(o.loss_scale);
  if (scale && *scale > 0 && std::isfinite(*scale)) return {*scale, false};
  throw BadInput("--loss-scale " + o.loss_scale, "must be a finite number above 0, or dynamic");
}

}  // namespace

std::string named_arithmetic(const std::string& text) {
  struct Spelling {
    std::string_view spelling, name;
  };
  constexpr Spelling kSpellings[] = {{"f32", "f32"},
                                     {"f64", "f64"},
                                     {"tf32", "tf32"},
                                     {"f16", "f16"},
                                     {"bf16", "bf16"},
                                     {"fp8", "fp8"},
                                     {"float32", "f32"},
                                     {"fp32", "f32"},
                                     {"single", "f32"},
                                     {"float64", "f64"},
                                     {"fp64", "f64"},
                                     {"double", "f64"},
                                     {"float16", "f16"},
                                     {"fp16", "f16"},
                                     {"half", "f16"},
                                     {"bfloat16", "bf16"},
                                     {"f8", "fp8"},
                                     {"float8", "fp8"},
                                     {"fp8-rowwise", "fp8-rowwise"},
                                     {"fp8-block", "fp8-block"},
                                     {"mxfp8", "mxfp8"},
                                     {"nvfp4", "nvfp4"}};
  const auto names = names_of_rows(kSpellings, &Spelling::spelling);
  const auto found = find_name(text, names);
  if (!found) throw BadInput("--dtype " + text, "is unknown" + suggestion(text, names) + " Use " + known_arithmetics());
  return std::string(std::ranges::find(kSpellings, *found, &Spelling::spelling)->name);
}

void require_kernels_for(const std::string& dtype) {
  if (find_arithmetic(dtype)->predicted_alone)
    throw Refusal("--dtype " + dtype +
                  ": no kernel here computes in it; kernels take f32, f64, f16 or bf16, and tf32 with --backend cuda (estimates know it)");
}

void set_optimizer(const std::string& text, ModelOptions& o) {
  const auto colon = text.find(':');
  const auto& row = graph::optimizer_row(text.substr(0, colon));
  o.optimizer = row.name;
  o.hyperparameters.clear();
  if (colon == std::string::npos) return;
  const auto names = names_of_rows(row.parameters, &graph::OptimizerParameter::name);
  std::istringstream pairs(text.substr(colon + 1));
  for (std::string pair; std::getline(pairs, pair, ',');) {
    const auto equals = pair.find('=');
    const std::string key(find_name(pair.substr(0, equals), names).value_or(pair.substr(0, equals)));
    const auto value = equals == std::string::npos ? std::nullopt : parse_number<double>(std::string_view(pair).substr(equals + 1));
    if (!value) throw BadInput("--optimizer " + text, "\"" + pair + "\" is no KEY=NUMBER; write for example muon:rms=0,adam_rate=0.1");
    if (!o.hyperparameters.emplace(key, *value).second) throw BadInput("--optimizer " + text, "says " + key + " twice");
  }
  static_cast<void>(graph::completed({o.optimizer, o.hyperparameters}));  // throws for a key that the optimizer does not take
}

double rate_scaling(const ModelOptions& o, std::int64_t batch) {
  if (o.lr_scaling.empty() && !o.base_batch) return 1;
  struct Rule {
    std::string_view name;
    double power;
  };
  static constexpr std::array kRules{Rule{"linear", 1}, Rule{"sqrt", 0.5}};
  const auto* rule = std::ranges::find(kRules, o.lr_scaling, &Rule::name);
  if (o.lr_scaling.empty())
    throw BadInput("--base-batch " + std::to_string(*o.base_batch), "is for --lr-scaling linear or sqrt; give that, or leave it out");
  if (rule == kRules.end()) throw BadInput("--lr-scaling " + o.lr_scaling, "use linear or sqrt");
  if (!o.base_batch) throw BadInput("--lr-scaling " + o.lr_scaling, "needs --base-batch N, the batch for which --lr is meant");
  if (*o.base_batch < 1) throw BadInput("--base-batch " + std::to_string(*o.base_batch), "must be at least 1");
  return std::pow(static_cast<double>(batch) / static_cast<double>(*o.base_batch), rule->power);
}

graph::OptimizerSettings optimizer_of(const ModelOptions& o) {
  graph::OptimizerSettings settings{o.optimizer, o.hyperparameters};
  const auto takes = [&](std::string_view name) {
    const auto& known = graph::optimizer_row(o.optimizer).parameters;
    return std::ranges::find(known, name, &graph::OptimizerParameter::name) != known.end();
  };
  const auto set = [&](const char* name, const std::optional<double>& value) {
    // A momentum of 0 for an optimizer without momentum says nothing.
    if (!value || (!takes(name) && *value == 0)) return;
    if (const auto known = o.hyperparameters.find(name); known != o.hyperparameters.end() && known->second != *value)
      throw BadInput("--optimizer " + o.optimizer, "says another " + std::string(name) + " than the option for it; leave one of them out");
    settings.values[name] = *value;
  };
  set("lr", o.lr);
  set("momentum", o.momentum);
  set("weight_decay", o.weight_decay);
  set("trust", o.trust);
  set("eps", o.eps);
  if (on("--nesterov", o.nesterov)) settings.values["nesterov"] = 1;
  if (!o.betas.empty()) set_betas(o.betas, settings.values);
  const auto all = graph::completed(settings).values;
  const auto number = [&](const char* name) { return all.contains(name) ? all.at(name) : 1; };
  if (all.contains("nesterov") && number("nesterov") != 0 && number("momentum") == 0)
    throw BadInput("--nesterov", "looks ahead along a momentum; give --momentum a number above 0, or leave it out");
  return settings;
}

graph::OptimizerSettings optimizer_for(const ModelOptions& o, std::int64_t batch) {
  auto settings = optimizer_of(o);
  if (!o.lr_scaling.empty() || o.base_batch) settings.values["lr"] = graph::completed(settings).values.at("lr") * rate_scaling(o, batch);
  return settings;
}

void ModelOptions::add_reference_to(CLI::App& app) {
  app.add_option("MODEL", model, "an ONNX file, zoo:NAME?key=value&..., or hf:FOLDER/config.json")->required();
  add_sizes_to(app);
}

void ModelOptions::add_sizes_to(CLI::App& app) {
  const OptionGroup group(app, "Model");
  as_count(app.add_option("--batch", batch, "global samples of one optimizer step"));
  app.add_option("--bind", binds, "NAME=VALUE of another symbol of the model")->take_all();
  note_typed(app, typed);
}

void ModelOptions::add_dtype_to(CLI::App& app, const std::string& help) {
  app.add_option_function<std::string>(
      "--dtype", [this](const std::string& text) { dtype = named_arithmetic(text); }, help);
}

void ModelOptions::add_to(CLI::App& app) {
  add_reference_to(app);
  add_training_to(app);
}

void ModelOptions::add_training_to(CLI::App& app) {
  const OptionGroup group(app, "How it is trained");
  app.add_option("--loss", loss,
                 "cross-entropy, mse, l1, huber, bce, dice, nll, kl, none, or the name of an output; others added to it: "
                 "cross-entropy+0.01*balance");
  app.add_option("--target", target, "name of the target in the data");
  app.add_option("--freeze", freeze, "glob of tensor names that are not trained")->take_all();
  app.add_option("--train", train, "glob of tensor names that are trained whatever the rule says")->take_all();
  app.add_option("--lora", lora, "RANK[,alpha=A][,targets=GLOB+GLOB]: low-rank adapters are trained beside the weights, which are not");
  as_name(app.add_option("--dropout", dropout, "on or off: off leaves out the dropout that the model has"), {"on", "off"});
  app.add_option_function<std::string>(
      "--optimizer", [this](const std::string& text) { set_optimizer(text, *this); },
      joined(names_of_rows(graph::optimizer_table(), &graph::OptimizerRow::name)) +
          " (default: sgd), with what else it takes as in muon:rms=0,adam_rate=0.1");
  app.add_option("--lr", lr, "learning rate (default: the optimizer's, as in PyTorch)");
  as_name(app.add_option("--lr-scaling", lr_scaling,
                         "linear or sqrt: the rate follows the batch from that of --base-batch, for which --lr is meant"),
          {"linear", "sqrt"});
  app.add_option("--base-batch", base_batch, "the batch for which --lr is meant, with --lr-scaling");
  app.add_option("--momentum", momentum, "share of the last update that the next one keeps (default: the optimizer's)");
  as_name(app.add_option("--nesterov", nesterov, "on or off: momentum looks one step ahead"), {"on", "off"});
  app.add_option("--betas", betas, "A,B: shares of the last moments that Adam and its kin keep (default: the optimizer's)");
  app.add_option("--trust", trust, "trust coefficient of LARS");
  app.add_option("--eps", eps, "added to a denominator that might be 0 (default: the optimizer's)");
  app.add_option("--weight-decay", weight_decay, "share of a weight that an update takes away (default: the optimizer's)");
  app.add_option("--clip-norm", clip_norm, "largest norm of all gradients together; beyond it they are scaled down");
  app.add_option("--clip-value", clip_value, "largest magnitude of an element of a gradient; taken before --clip-norm");
  as_name(
      app.add_option("--loss-scale", loss_scale, "factor of the loss while it is differentiated, or dynamic (default of run --dtype f16)"),
      {"dynamic"});
  add_dtype_to(app, known_arithmetics() + " (default: f32)");
  app.add_option("--seed", seed, "of everything random")->check([](const std::string& text) {
    return parse_number<std::uint64_t>(text) ? std::string() : text + " is no whole number from 0";
  });
  note_typed(app, typed);
}

std::vector<std::string> with_stored_names(std::vector<std::string> globs, const std::vector<formats::ExporterDamage>& damage) {
  const std::size_t given = globs.size();
  for (std::size_t i = 0; i < given; ++i) {
    for (const auto& weight : damage) {
      if (weight.stored_as.empty()) continue;
      if (::fnmatch(globs[i].c_str(), weight.tensor.c_str(), 0) == 0) globs.push_back(weight.stored_as);
      if (weight.undone && ::fnmatch(globs[i].c_str(), weight.stored_as.c_str(), 0) == 0) globs.push_back(weight.tensor);
    }
  }
  return globs;
}

bool is_built(std::string_view model) { return model.starts_with("zoo:") || model.starts_with("hf:"); }

namespace {

/// A name of the zoo without "zoo:" is no file.
void require_file(const std::string& model) {
  if (std::filesystem::exists(model) || model.find_first_of("/.") < model.find('?')) return;
  try {
    static_cast<void>(graph::zoo::parse(model));
  } catch (const BadInput& unknown) {
    throw BadInput(model, std::string("there is no such file, and the zoo has none of this name: ") + unknown.what());
  }
  throw BadInput(model, "there is no such file; the zoo's model of this name is zoo:" + model);
}

LoadedModel read_model(const ModelOptions& o, Completeness completeness, const formats::ImportListener& after_pass) {
  if (o.batch && (*o.batch < 1 || *o.batch > 1'000'000'000))
    throw BadInput("--batch " + std::to_string(*o.batch), "must be between 1 and 1000000000");
  LoadedModel loaded;
  formats::ImportOptions options;
  for (const auto& bind : o.binds) {
    std::string name;
    const auto value = bind_value(bind, name);
    options.binds[name] = value;
  }
  if (is_built(o.model)) {
    if (!o.binds.empty())
      throw BadInput("--bind " + o.binds.front(), "a model of the zoo names no sizes; write them as in zoo:resnet50?image=64");
    auto model = o.model.starts_with("hf:") ? formats::read_hugging_face(o.model) : formats::HuggingFaceModel{o.model, {}, {}};
    loaded.graph = graph::zoo::build(model.zoo, o.batch);
    loaded.warnings = std::move(model.without);
    loaded.warnings_of_training = std::move(model.otherwise);
    for (const auto& t : loaded.graph.tensors()) loaded.tensors[t.name] = t.type;
    return loaded;
  }
  require_file(o.model);
  options.batch = o.batch;
  options.collect_unknown = options.allow_missing_weights = completeness != Completeness::Trainable;
  options.assume_sizes = completeness == Completeness::Structure;
  options.after_pass = after_pass;
  auto imported = formats::import_onnx(o.model, options);
  loaded.graph = std::move(imported.graph);
  loaded.warnings = std::move(imported.warnings);
  loaded.unresolved = std::move(imported.unresolved);
  loaded.tensors = std::move(imported.tensors);
  loaded.damage = std::move(imported.damage);
  loaded.recognized = std::move(imported.recognized);
  for (const auto& u : imported.unknown) loaded.unknown_text.push_back(u.node + "\n" + u.op + "\n" + u.reason);
  return loaded;
}

}  // namespace

LoadedModel load_model(const ModelOptions& o, Completeness completeness, const formats::ImportListener& after_pass) {
  auto loaded = read_model(o, completeness, after_pass);
  if (!o.lora.empty()) loaded.graph = adapted(loaded.graph, o.lora);
  return loaded;
}

DType element_type(const ModelOptions& o) { return find_arithmetic(o.dtype)->stored; }

graph::EvaluationGraph load_evaluation(const ModelOptions& o, std::int64_t batch) {
  auto of_batch = o;
  of_batch.batch = batch;
  auto model = graph::with_initial_values(load_model(of_batch).graph);
  if (element_type(o) == DType::F64) model = graph::with_float_type(model, DType::F64);
  graph::TrainingOptions options;
  options.loss = o.loss;
  options.target_name = o.target;
  return graph::build_evaluation_graph(model, options);
}

std::string peak_key(const ModelOptions& o) { return std::string(find_arithmetic(o.dtype)->peak); }

namespace {

/// Whether a glob names the weight, or what the exporter made of it.
bool is_named(const formats::ExporterDamage& weight, const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return ::fnmatch(glob.c_str(), weight.tensor.c_str(), 0) == 0 ||
           (!weight.stored_as.empty() && ::fnmatch(glob.c_str(), weight.stored_as.c_str(), 0) == 0);
  });
}

void require_trainable(const ModelOptions& o, const std::vector<formats::ExporterDamage>& damage) {
  if (!o.lora.empty()) return;  // what is left of them stays as it is
  for (const auto& weight : damage) {
    if (weight.what != "computed" || is_named(weight, o.freeze) || is_named(weight, o.train)) continue;
    throw Refusal(o.model + ": weight '" + weight.tensor + "': " + weight.detail +
                  ", so that training what is left would not train the model; export with optimize=False, or say with --freeze '" +
                  weight.tensor + "' that it is not to be trained, or with --train that '" + weight.stored_as +
                  "' is trained in its place");
  }
}

std::int64_t first_dimension(const graph::Graph& model) {
  for (const auto t : model.inputs())
    if (!model[t].type.shape.empty()) return model[t].type.shape[0];
  return 1;
}

graph::Graph with_element_type(graph::Graph model, DType dtype, std::vector<std::string>& warnings) {
  if (dtype == DType::F32) return model;
  if (size_of(dtype) != 2) return graph::with_float_type(model, dtype);
  auto narrowed = graph::with_narrow_type(model, dtype);
  if (narrowed.kept > 0)
    warnings.push_back(std::to_string(narrowed.kept) + " operators compute in f32, with " +
                       std::to_string(std::lround(100 * narrowed.share)) + " % of the FLOPs of convolutions and matrix products, from '" +
                       narrowed.first + "' on: batch statistics of " + std::to_string(narrowed.fewest_values) + " values, where " +
                       std::string(name(dtype)) + " needs " + std::to_string(graph::kFewestStatistics));
  return std::move(narrowed.graph);
}

}  // namespace

void require_possible_values(const ModelOptions& o) {
  (void)clipping_of("--clip-norm", o.clip_norm);
  (void)clipping_of("--clip-value", o.clip_value);
  (void)loss_scale_of(o);
  (void)rate_scaling(o, 1);
  (void)graph::completed(optimizer_of(o));
}

graph::TrainingOptions roles_asked_for(const ModelOptions& o, const std::vector<formats::ExporterDamage>& damage) {
  graph::TrainingOptions options;
  options.freeze = with_stored_names(o.freeze, damage);
  options.train = with_stored_names(o.train, damage);
  return options;
}

void refuse_forward_pass() {
  throw Refusal("--loss none: nothing is trainable in a forward pass; name a loss, or use rehearse evaluate for outputs alone");
}

graph::TrainingGraph load_training(const ModelOptions& o, std::vector<std::string>& warnings, ModelUse use) {
  auto loaded = load_model(o);
  if (use == ModelUse::Train) require_trainable(o, loaded.damage);
  warnings.insert(warnings.end(), loaded.warnings.begin(), loaded.warnings.end());
  if (use == ModelUse::Train) warnings.insert(warnings.end(), loaded.warnings_of_training.begin(), loaded.warnings_of_training.end());
  auto model = graph::with_initial_values(loaded.graph);
  model = with_element_type(std::move(model), element_type(o), warnings);
  auto options = roles_asked_for(o, loaded.damage);
  options.loss = o.loss;
  options.target_name = o.target;
  options.optimizer = optimizer_for(o, first_dimension(model));
  options.noise_scale = o.noise_scale;
  options.dropout = on("--dropout", o.dropout);
  options.clip_norm = clipping_of("--clip-norm", o.clip_norm);
  options.clip_value = clipping_of("--clip-value", o.clip_value);
  auto training = graph::build_training_graph(model, options, loss_scale_of(o));
  warnings.insert(warnings.end(), training.warnings.begin(), training.warnings.end());
  const bool trains = training.loss != graph::TensorId::None;
  if (!trains && use == ModelUse::Train) refuse_forward_pass();
  if (!trains) warnings.emplace_back("--loss none: a step is a forward pass alone, without gradients and update");
  if (o.batch && training.batch != *o.batch)
    throw BadInput(o.model, "the model is written for a batch of " + std::to_string(training.batch) + ", not " + std::to_string(*o.batch) +
                                "; export it with a dynamic batch, or use --batch " + std::to_string(training.batch));
  return training;
}

}  // namespace rehearsal::cli
