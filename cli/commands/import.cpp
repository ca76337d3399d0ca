#include <algorithm>
#include <fstream>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "base/text_lines.hpp"
#include "cli/collective_kinds.hpp"
#include "cli/command.hpp"
#include "cli/importing.hpp"
#include "exchange/chakra/chakra.hpp"
#include "exchange/kineto/kineto.hpp"
#include "exchange/logs/link_fit.hpp"
#include "platforms/devices.hpp"
#include "platforms/json.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string import_text(const std::string& path) {
  auto in = open_text(path);
  std::ostringstream text;
  text << in.rdbuf();
  return without_byte_order_mark(text.str());
}

exchange::LogHints hints_of(const ImportCommand& o) {
  exchange::LogHints hints{std::nullopt, o.ranks};
  if (o.kind.empty()) return hints;
  hints.kind = collective_named(o.kind);
  return hints;
}

Json json_of(const exchange::LogFit& fit) {
  Json figures = Json::array(), rows = Json::array();
  for (const auto& f : fit.figures)
    figures.push_back({{"figure", f.name}, {"before", f.before}, {"after", f.after}, {"has_effect", f.has_effect}});
  for (const auto& r : fit.rows)
    rows.push_back({{"message_bytes", r.size.value()},
                    {"measured_seconds", r.measured.value()},
                    {"before_seconds", r.before.value()},
                    {"after_seconds", r.after.value()}});
  return {{"fitted", figures},
          {"mean_error_before", fit.mean_before},
          {"mean_error_after", fit.mean_after},
          {"worst_error_after", fit.worst_after},
          {"messages", rows}};
}

/// Links of other devices may be of the same kind: told, not refused.
void warn_of_other_devices(const exchange::CollectiveLog& log, const platforms::Platform& platform, const Terminal& terminal) {
  for (const auto& named : log.devices) {
    const auto* device = platforms::find_device(named);
    const auto is_it = [&](const platforms::NodeGroup& nodes) { return device != nullptr && nodes.device.name == device->name; };
    if (std::ranges::any_of(platform.nodes, is_it)) continue;
    terminal.warn("the log is of " + named + ", platform " + platform.name + " has " +
                  joined(platform.nodes, ", ", [](const auto& nodes) { return nodes.device.name; }) +
                  ": the links of the platform are fitted to a log of other devices");
  }
}

int import_links(const ImportCommand& o, const std::string& text, Terminal& terminal) {
  if (o.platform.platform.empty())
    throw BadInput(o.file,
                   "is a log of collectives, whose times are fitted to a platform's links; give --platform (rehearse platform list)");
  const auto log = exchange::read_collective_log(text, o.file, hints_of(o));
  const auto platform = load_platform(o.platform);
  warn_of_other_devices(log, platform, terminal);
  const auto fit = exchange::fit_links(platform, log, "fitted to " + log.tool + ", " + o.file, o.ranks_per_node);
  if (!o.output.empty()) write_file_atomically(o.output, platforms::to_json_text(fit.platform) + "\n");
  for (const auto& f : fit.figures)
    if (!f.has_effect) terminal.warn(f.name + " stays at " + f.before + ": no predicted time of this log depends on it");
  Json result{{"schema", 1},
              {"file", o.file},
              {"is", log.tool},
              {"kind", log.kind ? std::string(plan::name(*log.kind)) : "message"},
              {"ranks", log.ranks},
              {"nodes", log.nodes},
              {"platform", fit.platform.name}};
  if (!o.output.empty()) result["output"] = o.output;
  result.update(json_of(fit));
  terminal.print(result);
  return 0;
}

/// Enough of a file to see what it is.
std::string beginning_of(const std::string& path) {
  constexpr std::size_t kEnough = 4096;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path, "cannot be read");
  std::string text(kEnough, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return without_byte_order_mark(std::move(text));
}

enum FileKind : unsigned { kLog = 1, kProfile = 2, kRecord = 4, kConfiguration = 8 };  // kRecord: a profile with -o

/// An option, and the kinds of files that it is for.
struct ImportOption {
  const char* name;
  unsigned kinds;
  bool (*given)(const ImportCommand&);
};
constexpr ImportOption kImportOptions[] = {
    {"--platform", kLog | kRecord, [](const ImportCommand& o) { return !o.platform.platform.empty(); }},
    {"--nodes", kLog | kRecord, [](const ImportCommand& o) { return o.platform.nodes.has_value(); }},
    {"--devices", kLog | kRecord, [](const ImportCommand& o) { return o.platform.devices.has_value(); }},
    {"--kind", kLog, [](const ImportCommand& o) { return !o.kind.empty(); }},
    {"--ranks", kLog | kConfiguration, [](const ImportCommand& o) { return o.ranks.has_value(); }},
    {"--ranks-per-node", kLog, [](const ImportCommand& o) { return o.ranks_per_node.has_value(); }},
    {"--model", kRecord, [](const ImportCommand& o) { return !o.model.model.empty(); }},
    {"--batch", kRecord, [](const ImportCommand& o) { return o.model.batch.has_value(); }},
    {"--plan", kRecord, [](const ImportCommand& o) { return !o.platform.plan.empty(); }},
    {"--framework", kRecord, [](const ImportCommand& o) { return !o.platform.framework.empty(); }},
    {"--dtype", kRecord, [](const ImportCommand& o) { return o.model.dtype != ModelOptions{}.dtype; }},
    {"--optimizer", kRecord, [](const ImportCommand& o) { return o.model.optimizer != ModelOptions{}.optimizer; }},
    {"--collectives", kProfile | kRecord, [](const ImportCommand& o) { return o.collectives; }}};

/// What such a file does not need is refused, never ignored.
void require_options_of(FileKind kind, const char* what, const ImportCommand& o) {
  for (const auto& option : kImportOptions) {
    if (!option.given(o) || (option.kinds & kind) != 0) continue;
    const bool for_record = kind == kProfile && (option.kinds & kRecord) != 0;
    throw BadInput(option.name, for_record ? "is for the record of a measured run: say with -o where to write it"
                                           : "is not for " + std::string(what) + ", which " + o.file + " is");
  }
}

struct RecognisedProfile {
  bool (*begins_so)(const std::string& beginning);
  ProfileKind kind;
};
constexpr RecognisedProfile kProfiles[] = {
    {exchange::is_kineto,
     {"profile of PyTorch", exchange::read_kineto,
      "has no marks of steps (ProfilerStep#N): call step() of the profiler after every step of training"}},
    {exchange::is_chakra,
     {"Chakra execution trace", exchange::read_chakra,
      "is a Chakra trace, which has no marks of steps; the profile of PyTorch that it was made from has them"}}};

/// Files that this program wrote, by what they begin with.
struct OwnFile {
  std::string_view holds, is;
};
constexpr OwnFile kOwnFiles[] = {
    {"\"rehearsal-trace\"", "is a trace of Rehearsal, which needs no import: `rehearse compare`, `learn` and `report` read it"},
    {"\"mesh\":", "is a plan of Rehearsal, which needs no import: give it as --plan"}};

int import_file(const ImportCommand& o, Terminal& terminal) {
  const auto beginning = beginning_of(o.file);
  for (const auto& own : kOwnFiles)
    if (beginning.find(own.holds) != std::string::npos) throw BadInput(o.file, std::string(own.is));
  if (beginning.starts_with("\x1f\x8b")) throw BadInput(o.file, "is packed by gzip; unpack it first (gunzip -k)");
  for (const auto& profile : kProfiles) {
    if (!profile.begins_so(beginning)) continue;
    require_options_of(o.output.empty() ? kProfile : kRecord, "a profile", o);
    return import_profile(o, profile.kind, terminal);
  }
  const auto text = import_text(o.file);
  if (exchange::is_collective_log(text)) {
    require_options_of(kLog, "a log of collectives", o);
    return import_links(o, text, terminal);
  }
  if (const bool titan = exchange::is_torchtitan(text); titan || exchange::is_megatron(text)) {
    require_options_of(kConfiguration, "a configuration", o);
    return import_configuration(o, (titan ? exchange::imported_torchtitan : exchange::imported_megatron)(text, o.file, o.ranks), terminal);
  }
  throw BadInput(o.file,
                 "is nothing that is read: a log of nccl-tests, rccl-tests or of OSU's latency tests, a trace of the PyTorch profiler, a "
                 "Chakra execution trace, or a configuration of Megatron-LM or torchtitan");
}

}  // namespace

Action add_import(CLI::App& app) {
  auto o = std::make_shared<ImportCommand>();
  app.add_option("FILE", o->file,
                 "a log of nccl-tests, rccl-tests or OSU's latency tests, a trace of the PyTorch profiler, a Chakra execution trace, "
                 "or a configuration of Megatron-LM or torchtitan")
      ->required();
  app.add_option("-o,--output", o->output,
                 "where to write what was made of it: the platform with its links as measured; of a trace a line more of measured runs; of "
                 "a configuration the plan file");
  app.add_option("--platform", o->platform.platform, kPlatformHelp);
  app.add_option("--nodes", o->platform.nodes, "how many nodes of it");
  app.add_option("--devices", o->platform.devices, "how many devices of it");
  app.add_option("--kind", o->kind, "the collective, where the log does not name it: all-reduce, all-gather, ...");
  app.add_option("--ranks", o->ranks, "how many ranks took part, where the file does not say (OSU, configurations)");
  app.add_option("--ranks-per-node", o->ranks_per_node, "of a message: 1 when it crossed the network");
  app.add_option("--model", o->model.model, "of a trace with -o: what was trained, zoo:NAME?key=value&... or hf:FOLDER/config.json");
  app.add_option("--batch", o->model.batch, "global samples of one optimizer step");
  app.add_option("--plan", o->platform.plan, "by which plan: compact text such as dp=8,zero=3, or a plan file");
  app.add_option("--framework", o->platform.framework, "by which framework: torchtitan, megatron-core, pytorch, ...");
  o->model.add_dtype_to(app, "arithmetic: f32, tf32, f16, bf16, fp8, ...");
  app.add_option("--optimizer", o->model.optimizer, "sgd, adam, adamw, ...; default sgd");
  app.add_flag("--collectives", o->collectives, "of a trace: refuse it when it does not say what its collectives are");
  return [o](Terminal& terminal) { return import_file(*o, terminal); };
}

}  // namespace rehearsal::cli
