#include "predict/frameworks/stages.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr double kMostOfModel = 0.5;  // of a step: then a chain of blocks is what a pipeline is cut along

double seconds_of(const PartTime& t) {
  const auto both = t.forward.queue.then(t.whole_backward);
  return std::max(both.host, both.device);
}

void append(Chunk& chunk, std::size_t part, int repetition) {
  if (!chunk.empty() && chunk.back().part == part && chunk.back().first + chunk.back().count == repetition)
    ++chunk.back().count;
  else
    chunk.push_back({part, repetition, 1});
}

/// The part that is a chain of at least so many blocks and most of the model; parts().size(): there is none.
std::size_t chain_of(const StepTimer& timer, std::size_t chunks) {
  const auto& parts = timer.model().parts;
  double whole = 0, longest = 0;
  std::size_t chain = parts.size();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const double seconds = seconds_of(timer.parts()[p]) * parts[p].repeats;
    whole += seconds;
    if (parts[p].repeats % static_cast<int>(chunks) == 0 && seconds > longest) longest = seconds, chain = p;
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

/// Repetitions of all parts in a row.
struct Unit {
  std::size_t part;
  int repetition;
  double seconds;
};

/// Cuts so that no chunk takes longer than `most`, each as long as it can be, and none empty.
std::vector<Chunk> cut_at(const std::vector<Unit>& units, const std::vector<double>& slowness, double most) {
  std::vector<Chunk> chunks(1);
  double sum = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool last = chunks.size() == slowness.size();
    const bool needed = units.size() - u <= slowness.size() - chunks.size();  // by the chunks that are still to come
    const double longer = sum + units[u].seconds * slowness[chunks.size() - 1];
    if (!chunks.back().empty() && !last && (needed || longer > most)) chunks.emplace_back(), sum = 0;
    append(chunks.back(), units[u].part, units[u].repetition);
    sum += units[u].seconds * slowness[chunks.size() - 1];
  }
  return chunks;
}

double costliest(const std::vector<Chunk>& chunks, const StepTimer& timer, const std::vector<double>& slowness) {
  double most = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    double sum = 0;
    for (const auto& piece : chunks[c]) sum += piece.count * seconds_of(timer.parts()[piece.part]) * slowness[c];
    most = std::max(most, sum);
  }
  return most;
}

std::vector<Chunk> balanced(const StepTimer& timer, const std::vector<double>& slowness) {
  std::vector<Unit> units;
  double whole = 0;
  for (std::size_t p = 0; p < timer.parts().size(); ++p)
    for (int r = 0; r < timer.model().parts[p].repeats; ++r) {
      units.push_back({p, r, seconds_of(timer.parts()[p])});
      whole += units.back().seconds;
    }
  if (units.size() < slowness.size())
    throw Refusal("plan: pp: " + std::to_string(slowness.size()) + " chunks of the model are wanted, and it has " +
                  std::to_string(units.size()) + " pieces; use fewer stages or a smaller interleave");
  double low = 0, high = whole * *std::max_element(slowness.begin(), slowness.end());
  auto best = cut_at(units, slowness, high);
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings && high - low > 1e-6 * high; ++i) {
    const double most = (low + high) / 2;
    auto chunks = cut_at(units, slowness, most);
    if (costliest(chunks, timer, slowness) <= most * (1 + 1e-9))
      high = most, best = std::move(chunks);
    else
      low = most;
  }
  return best;
}

}  // namespace

std::vector<Chunk> cut_into_chunks(const StepTimer& timer, const std::vector<double>& slowness) {
  const bool even = std::all_of(slowness.begin(), slowness.end(), [&](double s) { return s == slowness.front(); });
  if (even && !timer.model().image)
    if (const auto chain = chain_of(timer, slowness.size()); chain < timer.parts().size()) return dealt_out(timer, chain, slowness.size());
  return balanced(timer, slowness);
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
