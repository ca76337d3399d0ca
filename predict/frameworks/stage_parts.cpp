#include "predict/frameworks/stage_parts.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr double kMostOfModel = 0.5;  // of a step: then a chain of blocks is what a pipeline is cut along

double seconds_of(const PartTime& t) {
  const auto both = t.forward.queue.then(t.whole_backward);
  return std::max(both.host, both.device);
}

void append(Chunk& chunk, const Piece& piece) {
  if (!chunk.empty() && chunk.back().part == piece.part && chunk.back().first + chunk.back().count == piece.first)
    chunk.back().count += piece.count;
  else
    chunk.push_back(piece);
}

/// The part that is a chain of at least so many blocks and most of the model; parts().size(): there is none.
std::size_t chain_of(const StepTimer& timer, std::size_t chunks) {
  const auto& parts = timer.model().parts;
  double whole = 0, longest = 0;
  std::size_t chain = parts.size();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const double seconds = seconds_of(timer.parts()[p]) * parts[p].repeats;
    whole += seconds;
    const bool splits = (parts[p].repeated || chunks == 1) && parts[p].repeats % static_cast<int>(chunks) == 0;
    if (splits && seconds > longest) longest = seconds, chain = p;
  }
  return longest > kMostOfModel * whole ? chain : parts.size();
}

std::vector<Chunk> dealt_out(const StepTimer& timer, std::size_t chain, std::size_t chunks) {
  std::vector<Chunk> result(chunks);
  const auto& parts = timer.model().parts;
  const int each = parts[chain].repeats / static_cast<int>(chunks);
  for (std::size_t p = 0; p < chain; ++p) result.front().push_back({p, 0, parts[p].repeats});
  for (std::size_t c = 0; c < chunks; ++c) result[c].push_back({chain, static_cast<int>(c) * each, each});
  for (std::size_t p = chain + 1; p < parts.size(); ++p) result.back().push_back({p, 0, parts[p].repeats});
  return result;
}

/// Nothing is cut within: a repetition of a part, or all steps of a recurrence, which share their weights.
struct Unit {
  Chunk pieces;
  double seconds;
};

/// Of all parts in a row.
std::vector<Unit> uncut_units(const StepTimer& timer) {
  std::vector<Unit> units;
  for (std::size_t p = 0; p < timer.parts().size(); ++p) {
    const double seconds = seconds_of(timer.parts()[p]);
    const auto& part = timer.model().parts[p];
    if (part.first_repetition > 0) {
      units.back().pieces.push_back({p, 0, part.repeats});
      units.back().seconds += part.repeats * seconds;
      continue;
    }
    for (int r = 0; r < part.repeats; ++r) units.push_back({{{p, r, 1}}, seconds});
  }
  return units;
}

/// Goes through the units in order and begins another chunk where this one would take longer than `most`: each is as long as it can be,
/// and none empty. Tells `taken` of every unit and its chunk. Returns what the longest chunk takes.
template <class Taken>
double cut_at(const std::vector<Unit>& units, const std::vector<double>& slowness, double most, const Taken& taken) {
  double sum = 0, longest = 0;
  std::size_t chunk = 0, first = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool last = chunk + 1 == slowness.size();
    const bool needed = units.size() - u <= slowness.size() - chunk - 1;  // by the chunks that are still to come
    if (u > first && !last && (needed || sum + units[u].seconds * slowness[chunk] > most)) ++chunk, first = u, sum = 0;
    taken(chunk, units[u]);
    sum += units[u].seconds * slowness[chunk];
    longest = std::max(longest, sum);
  }
  return longest;
}

std::vector<Chunk> balanced(const StepTimer& timer, const std::vector<double>& slowness) {
  const auto units = uncut_units(timer);
  const double whole = std::accumulate(units.begin(), units.end(), 0.0, [](double sum, const Unit& unit) { return sum + unit.seconds; });
  if (units.size() < slowness.size())
    throw Refusal("plan: pp: " + std::to_string(slowness.size()) + " chunks of the model are wanted, and it has " +
                  std::to_string(units.size()) + " pieces; use fewer stages or a smaller interleave");
  double low = 0, high = whole * *std::max_element(slowness.begin(), slowness.end());
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings && high - low > 1e-6 * high; ++i) {
    const double most = (low + high) / 2;
    const double longest = cut_at(units, slowness, most, [](std::size_t, const Unit&) {});
    (longest <= most * (1 + 1e-9) ? high : low) = most;
  }
  std::vector<Chunk> chunks(slowness.size());
  cut_at(units, slowness, high, [&](std::size_t c, const Unit& unit) {
    for (const auto& piece : unit.pieces) append(chunks[c], piece);
  });
  return chunks;
}

}  // namespace

std::vector<Chunk> cut_into_chunks(const StepTimer& timer, const std::vector<double>& slowness) {
  const bool even = std::all_of(slowness.begin(), slowness.end(), [&](double s) { return s == slowness.front(); });
  if (even && !timer.model().image)
    if (const auto chain = chain_of(timer, slowness.size()); chain < timer.parts().size()) return dealt_out(timer, chain, slowness.size());
  return balanced(timer, slowness);
}

Chunk recomputing_first(int blocks, const Chunk& chunk, const ModelParts& model) {
  Chunk result;
  int left = blocks;
  for (const auto& piece : chunk) {
    const int again = model.parts[piece.part].repeated ? std::min(left, piece.count) : 0;
    if (again > 0) result.push_back({piece.part, piece.first, again, piece.recompute});
    if (again < piece.count) result.push_back({piece.part, piece.first + again, piece.count - again, Recomputed::Nothing});
    left -= again;
  }
  return result;
}

Weights weights_of(const ModelParts& model, const Chunk& chunk) {
  Weights sum;
  for (const auto& piece : chunk) sum += piece.count * model.parts[piece.part].weights;
  return sum;
}

double trained_tensors_of(const ModelParts& model, const Chunk& chunk) {
  double sum = 0;
  for (const auto& piece : chunk) sum += piece.count * model.parts[piece.part].trained_tensors;
  return sum;
}

}  // namespace rehearsal::predict::frameworks
