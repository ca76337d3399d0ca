#include "cli/adapter_option.hpp"

#include <cmath>
#include <set>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::cli {
namespace {

constexpr const char* kForm = "write RANK[,alpha=A][,targets=GLOB+GLOB], for example --lora 16,alpha=32,targets=*q_proj*+*v_proj*";

[[noreturn]] void refuse(const std::string& text, const std::string& part) { throw BadInput("--lora " + text, "'" + part + "': " + kForm); }

}  // namespace

graph::AdapterOptions parse_adapters(const std::string& text) {
  graph::AdapterOptions options;
  std::set<std::string> given;
  const auto parts = split(text, ',');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto equals = parts[i].find('=');
    const auto given_key = equals == std::string::npos ? std::string(i == 0 ? "rank" : "") : parts[i].substr(0, equals);
    const std::string key(find_name(given_key, {"rank", "alpha", "targets"}).value_or(given_key));
    const auto value = equals == std::string::npos ? parts[i] : parts[i].substr(equals + 1);
    if (!given.insert(key).second) refuse(text, parts[i] + "' stands beside another '" + key);
    if (key == "rank") {
      const auto rank = parse_number<std::int64_t>(value);
      if (!rank || *rank < 1) refuse(text, parts[i]);
      options.rank = *rank;
    } else if (key == "alpha") {
      const auto alpha = parse_number<double>(value);
      if (!alpha || !(*alpha > 0) || !std::isfinite(*alpha)) refuse(text, parts[i]);
      options.alpha = *alpha;
    } else if (key == "targets" && !value.empty()) {
      options.targets = split(value, '+');
    } else {
      refuse(text, parts[i]);
    }
  }
  return options;
}

double adapter_factor(const std::string& text) { return text.empty() ? 0 : parse_adapters(text).factor(); }

graph::Graph adapted(const graph::Graph& model, const std::string& text) {
  try {
    return graph::with_adapters(model, parse_adapters(text)).graph;
  } catch (const Refusal& refusal) {
    throw Refusal("--lora " + text + ": " + refusal.what());
  } catch (const BadInput& bad) {
    const std::string said = bad.what();
    if (said.starts_with("--lora")) throw;
    throw BadInput("--lora " + text, said);
  }
}

}  // namespace rehearsal::cli
