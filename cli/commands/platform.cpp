#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"
#include "platforms/json.hpp"
#include "platforms/usual_figures.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

int list_of_platform(Terminal& terminal) {
  auto rows = Json::array();
  for (const auto& name : platforms::catalog_names()) {
    const auto p = platforms::load(name);
    rows.push_back({{"name", name},
                    {"nodes", platforms::node_count(p)},
                    {"devices", platforms::device_count(p)},
                    {"device", platforms::device_of(p, 0).name},
                    {"description", p.description}});
  }
  terminal.print({{"schema", 1}, {"platforms", rows}});
  return 0;
}

int devices(Terminal& terminal) {
  auto rows = Json::array();
  for (const auto& name : platforms::device_names()) {
    const auto d = platforms::load_device(name);
    auto peaks = Json::object();
    for (const auto& [arithmetic, peak] : d.peaks) peaks[arithmetic] = peak.value.value();
    rows.push_back({{"name", name},
                    {"generation", d.generation},
                    {"compute_units", d.compute_units},
                    {"memory_bytes", (*d.memory).value()},
                    {"memory_bytes_per_second", (*d.memory_bandwidth).value()},
                    {"peak_flops_per_second", peaks}});
  }
  terminal.print({{"schema", 1}, {"devices", rows}});
  return 0;
}

int show(const std::string& name, Terminal& terminal) {
  terminal.out() << platforms::to_json_text(platforms::load(name)) << '\n';
  return 0;
}

int schema(Terminal& terminal) {
  terminal.out() << platforms::platform_schema() << (platforms::platform_schema().ends_with('\n') ? "" : "\n");
  return 0;
}

int check(const std::string& path, Terminal& terminal) {
  const auto p = platforms::read_platform_file(path);
  const auto unusual = platforms::unusual_figures(p);
  for (const auto& sentence : unusual) terminal.warn(path + ": " + sentence);
  terminal.print({{"schema", 1},
                  {"file", path},
                  {"name", p.name},
                  {"nodes", platforms::node_count(p)},
                  {"devices", platforms::device_count(p)},
                  {"unusual", unusual},
                  {"valid", true}});
  return 0;
}

}  // namespace

Action add_platform(CLI::App& app) {
  app.require_subcommand(1);
  auto what = std::make_shared<std::string>();
  auto* lists = app.add_subcommand("list", "the catalogue");
  lists->footer("rehearse platform list");
  auto* devices_of = app.add_subcommand("devices", "the devices that platforms may name");
  devices_of->footer("rehearse platform devices");
  auto* shows = app.add_subcommand("show", "a platform as JSON");
  shows->add_option("NAME", *what, "one of `rehearse platform list`")->required();
  auto* schemas = app.add_subcommand("schema", "the JSON Schema of platform files");
  schemas->footer("rehearse platform schema");
  auto* checks = app.add_subcommand("check", "is a platform file right?");
  checks->footer("rehearse platform check mine.json");
  checks->add_option("FILE", *what, "a platform of your own, as `rehearse platform schema` describes it")->required();
  for (auto* sub : {lists, devices_of, shows, schemas, checks}) sub->fallthrough();
  return [=](Terminal& terminal) {
    if (lists->parsed()) return list_of_platform(terminal);
    if (devices_of->parsed()) return devices(terminal);
    if (schemas->parsed()) return schema(terminal);
    return shows->parsed() ? show(*what, terminal) : check(*what, terminal);
  };
}

}  // namespace rehearsal::cli
