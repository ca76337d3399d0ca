#include "predict/frameworks/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "base/random.hpp"
#include "base/short_number.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr std::string_view kZipf = "zipf:";
constexpr int kPlacements = 512;

std::vector<double> read_shares(const std::string& where, const std::string& path) {
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  std::vector<double> shares;
  if (json.is_array())
    for (const auto& share : json)
      if (share.is_number() && share.get<double>() >= 0) shares.push_back(share.get<double>());
  const double most = shares.empty() ? 0 : std::ranges::max(shares);
  if (shares.size() != json.size() || !(most > 0))
    throw BadInput(where, path + " must be a JSON list of a number from 0 on for every expert, for example [120, 80, 95, 105]");
  for (auto& share : shares) share /= most;  // so that their sum is finite, however large they are
  return shares;
}

/// Neighbours share a rank.
double busiest_of(const std::vector<double>& shares, int ranks) {
  const auto each = shares.size() / static_cast<std::size_t>(ranks);
  double most = 0, all = 0;
  for (std::size_t first = 0; first + each <= shares.size(); first += each) {
    const auto begin = shares.begin() + static_cast<std::ptrdiff_t>(first);
    const double own = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(each), 0.0);
    most = std::max(most, own);
    all += own;
  }
  return most * ranks / all;
}

void shuffle(std::vector<double>& values, std::uint64_t stream) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[static_cast<std::size_t>(random_uniform(1, stream, i) * static_cast<double>(i))]);
}

/// The experts' shares by the law. Of those that would have more than `most` each has that, and the others have the rest by the same law.
std::vector<double> zipf_shares(double exponent, std::int64_t experts, double most) {
  std::vector<double> shares(static_cast<std::size_t>(experts));
  for (std::size_t n = 0; n < shares.size(); ++n) shares[n] = std::pow(static_cast<double>(n + 1), -exponent);
  auto others = shares.begin();
  double of_each = 1 / std::accumulate(others, shares.end(), 0.0);
  while (others != shares.end() && *others * of_each > most) {
    *others++ = most;
    const double rest = 1 - most * static_cast<double>(others - shares.begin());
    of_each = rest > 0 ? rest / std::accumulate(others, shares.end(), 0.0) : 0;
  }
  for (; others != shares.end(); ++others) *others *= of_each;
  return shares;
}

void refuse_impossible(const std::vector<double>& shares, std::int64_t choices) {
  constexpr double kRounded = 1e-6;
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto top = std::ranges::max_element(shares);
  if (*top * static_cast<double>(choices) <= all * (1 + kRounded)) return;
  throw BadInput("the list of experts' tokens", "gives expert " + std::to_string(top - shares.begin()) + " (counted from 0) " +
                                                    short_number(100 * *top / all, 3) + " % of them; a token goes to " +
                                                    std::to_string(choices) + " different experts, so that one has " +
                                                    short_number(100.0 / static_cast<double>(choices), 3) + " % at most");
}

}  // namespace

ExpertLoad ExpertLoad::parse(std::string_view where, const std::string& text) {
  ExpertLoad load;
  const auto lower = lower_case(text);
  if (lower.empty() || lower == "balanced") return load;
  const auto named = std::string(where) + " " + text;
  if (lower.starts_with(kZipf)) {
    const auto exponent = parse_number<double>(std::string_view(text).substr(kZipf.size()));
    if (!exponent || !(*exponent >= 0 && *exponent <= 10)) throw BadInput(named, "the exponent must be from 0 to 10, as in zipf:1.2");
    load.exponent_ = *exponent;
    return load;
  }
  if (!std::filesystem::exists(text)) throw BadInput(named, "is no file; use balanced, zipf:1.2, or a file with a JSON list");
  load.shares_ = read_shares(named, text);
  return load;
}

double ExpertLoad::busiest(std::int64_t experts, std::int64_t choices, int ranks) const {
  if (!shares_.empty()) {
    if (static_cast<std::int64_t>(shares_.size()) != experts)
      throw BadInput("the list of experts' tokens",
                     "has " + std::to_string(shares_.size()) + " numbers, the model " + std::to_string(experts) + " experts");
    refuse_impossible(shares_, choices);
  }
  if (balanced() || ranks <= 1) return 1;
  if (experts % ranks != 0) throw Refusal("ep: " + std::to_string(ranks) + " ranks do not divide " + std::to_string(experts) + " experts");
  if (!shares_.empty()) return busiest_of(shares_, ranks);
  auto shares = zipf_shares(exponent_, experts, 1 / static_cast<double>(choices));
  double sum = 0;
  for (int placement = 0; placement < kPlacements; ++placement) {
    shuffle(shares, static_cast<std::uint64_t>(placement));
    sum += busiest_of(shares, ranks);
  }
  return sum / kPlacements;
}

}  // namespace rehearsal::predict::frameworks
