#include "plan/choices.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "base/short_number.hpp"
#include "base/units.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::plan {

template <class Choice>
Choice choice_named(std::string_view text) {
  const auto& all = ChoiceNames<Choice>::kAll;
  const Names known(all.begin(), all.end());
  if (const auto found = find_name(text, known)) return static_cast<Choice>(std::ranges::find(all, *found) - all.begin());
  throw BadInput("must be one of " + joined(all) + (nearest_name(text, known) ? suggestion(text, known) : ""));
}
template AttentionForm choice_named(std::string_view);
template Fusion choice_named(std::string_view);
template Offload choice_named(std::string_view);
template BatchStatistics choice_named(std::string_view);
template CompressionRule choice_named(std::string_view);
template OuterRule choice_named(std::string_view);

namespace {

/// "TopK:0.02" as "topk:0.02": what stands in front of a colon is the name that it means, where it means one.
template <class Choice>
std::string with_known_name(std::string_view text) {
  const auto& all = ChoiceNames<Choice>::kAll;
  const auto given = text.substr(0, text.find(':'));
  return std::string(find_name(given, Names(all.begin(), all.end())).value_or(given)) + std::string(text.substr(given.size()));
}

}  // namespace

Recompute parse_recompute(std::string_view given) {
  const auto named = with_known_name<RecomputeRule>(given);
  const std::string_view text = named;
  constexpr std::string_view kFull = "full:";
  constexpr int kMostBlocks = 1'000'000;
  if (text.starts_with(kFull)) {
    const auto blocks = parse_number<int>(text.substr(kFull.size()));
    if (!blocks || *blocks < 1 || *blocks > kMostBlocks)
      throw BadInput("must have a number of blocks behind full:, from 1 to " + std::to_string(kMostBlocks) +
                     " (full:4); full alone is all of them");
    return {RecomputeRule::Full, 0, *blocks};
  }
  const auto& names = ChoiceNames<RecomputeRule>::kAll;
  if (const auto found = std::ranges::find(names, text); found != names.end())
    return {static_cast<RecomputeRule>(found - names.begin()), 0};
  double bytes = 0;
  try {
    bytes = parse_quantity<Bytes>(std::string(text)).value();
  } catch (const BadInput&) {
    bytes = 0;  // neither a name nor a quantity
  }
  if (bytes >= 1) return {RecomputeRule::Budget, static_cast<std::int64_t>(bytes)};
  throw BadInput("must be none, selective, selective-op, full, full:N, full-except-last, or the bytes that a rank may use (4GiB)");
}

std::string to_text(const Recompute& recompute) {
  const auto blocks = recompute.blocks > 0 ? ":" + std::to_string(recompute.blocks) : std::string();
  if (recompute.rule != RecomputeRule::Budget) return std::string(name(recompute.rule)) + blocks;
  auto text = to_exact_text(Bytes(static_cast<double>(recompute.budget)));
  std::erase(text, ' ');
  return text;
}

std::optional<DType> Compression::type_on_the_way() const {
  if (rule == CompressionRule::BF16) return DType::BF16;
  return rule == CompressionRule::F16 ? std::optional(DType::F16) : std::nullopt;
}

namespace {

Compression with_setting(const CompressorRow& row, std::string_view text) {
  Compression compression{row.rule};
  compression.setting = row.usual;
  if (text.empty()) return compression;
  const auto number = text.size() > 1 ? parse_number<double>(text.substr(1)) : std::nullopt;
  if (row.setting.empty()) throw BadInput("must be " + std::string(name(row.rule)) + ": it takes no number");
  if (!number || !(*number >= row.least) || *number > row.most || (row.whole && *number != std::floor(*number)))
    throw BadInput("must be " + std::string(name(row.rule)) + ":X, X being " + std::string(row.setting));
  compression.setting = *number;
  return compression;
}

}  // namespace

Compression parse_compression(std::string_view given) {
  const auto named = with_known_name<CompressionRule>(given);
  const std::string_view text = named;
  for (const auto& row : compressors())
    if (const auto own = name(row.rule); text.starts_with(own) && (text.size() == own.size() || text[own.size()] == ':'))
      return with_setting(row, text.substr(own.size()));
  constexpr auto kSparse = name(CompressionRule::GistSparse);
  if (!text.starts_with(kSparse) || text == kSparse) {
    const auto rule = choice_named<CompressionRule>(text);
    const auto* row = compressor(rule);
    return row == nullptr ? Compression{rule} : with_setting(*row, {});
  }
  const auto density = text[kSparse.size()] == ':' ? parse_number<double>(text.substr(kSparse.size() + 1)) : std::nullopt;
  if (!density || !(*density > 0) || *density > 1)
    throw BadInput("must be gist-sparse:X, X being the share of elements other than zero that a result has room for: above 0, at most 1");
  return {CompressionRule::GistSparse, *density};
}

std::string to_text(const Compression& compression) {
  std::string text(name(compression.rule));
  if (compression.sparse() && compression.density != Compression::kUsualDensity) return text + ":" + shortest_number(compression.density);
  const auto* row = compressor(compression.rule);
  return row != nullptr && !row->setting.empty() ? text + ":" + shortest_number(compression.setting) : text;
}

namespace {

// DiLoCo (Douillard et al. 2023, table 5): what they found best.
constexpr double kUsualOuterRate = 0.7, kUsualOuterMomentum = 0.9, kMostOuterRate = 10;

// EASGD (Zhang, Choromanska, LeCun 2015, section 5): what they took for every number of workers.
constexpr double kUsualPull = 0.9;

OuterStep nesterov(std::string_view numbers) {
  const auto between = numbers.find(':');
  if (between == std::string_view::npos) throw BadInput("must have a rate and a momentum, as in nesterov:0.7:0.9");
  const auto rate = parse_number<double>(numbers.substr(0, between)), momentum = parse_number<double>(numbers.substr(between + 1));
  if (!rate || !(*rate > 0 && *rate <= kMostOuterRate)) throw BadInput("must have a rate above 0, at most 10, as in nesterov:0.7:0.9");
  if (!momentum || !(*momentum >= 0 && *momentum < 1)) throw BadInput("must have a momentum from 0, below 1, as in nesterov:0.7:0.9");
  return {OuterRule::Nesterov, *rate, *momentum};
}

OuterStep elastic(std::string_view number) {
  const auto pull = parse_number<double>(number);
  if (!pull || !(*pull > 0 && *pull <= 1)) throw BadInput("must have a pull above 0, at most 1, as in elastic:0.9");
  return {OuterRule::Elastic, 0, 0, *pull};
}

OuterStep without_numbers(std::string_view) {
  throw BadInput("takes no numbers: average, gossip, adasum, nesterov:0.7:0.9 or elastic:0.9");
}

/// In the order of OuterRule.
struct OuterRow {
  OuterStep usual;
  OuterStep (*parse)(std::string_view numbers);
};
constexpr std::array kOuterRows{OuterRow{{OuterRule::Average}, without_numbers},
                                OuterRow{{OuterRule::Nesterov, kUsualOuterRate, kUsualOuterMomentum}, nesterov},
                                OuterRow{{OuterRule::Elastic, 0, 0, kUsualPull}, elastic}, OuterRow{{OuterRule::Gossip}, without_numbers},
                                OuterRow{{OuterRule::Adasum}, without_numbers}};

}  // namespace

OuterStep parse_outer_step(std::string_view text) {
  const auto colon = text.find(':');
  const auto& row = kOuterRows[static_cast<std::size_t>(choice_named<OuterRule>(text.substr(0, colon)))];
  return colon == std::string_view::npos ? row.usual : row.parse(text.substr(colon + 1));
}

std::string to_text(const OuterStep& step) {
  std::string text(name(step.rule));
  if (step.rule == OuterRule::Nesterov) text += ":" + shortest_number(step.rate) + ":" + shortest_number(step.momentum);
  if (step.rule == OuterRule::Elastic) text += ":" + shortest_number(step.pull);
  return text;
}

}  // namespace rehearsal::plan
