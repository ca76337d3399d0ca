// Segments of the forward pass between cuts that few bytes cross.

#include <algorithm>
#include <limits>
#include <set>

#include "plan/recompute/recompute.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

namespace {

/// More places to cut than this are thinned out: a part of a model hardly has so many layers.
constexpr std::size_t kMostCuts = 200;
/// Bounds of a segment's bytes that are tried when there are too many to try them all.
constexpr int kBounds = 64;
constexpr std::size_t kFewCuts = 40;

/// What one node of a part makes: results by the last of the part's nodes that reads them.
struct Result {
  TensorId tensor;
  std::size_t made = 0, last = 0;  ///< positions among the part's nodes
  double bytes = 0;
  bool saved = false;
};

/// A cut c lies behind the c-th node of the part, so that 0 is none and the number of nodes is its end.
class Cutting {
 public:
  Cutting(const ForwardResults& results, int part, double in_flight) : in_flight_(in_flight), nodes_(results.nodes_of(part)) {
    std::vector<std::size_t> position(results.graph().nodes().size(), 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i) position[graph::index(nodes_[i])] = i + 1;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const TensorId t : results.graph()[nodes_[i]].outputs) {
        if (t == TensorId::None || !results.can_drop(t)) continue;
        const NodeId last = results.last_readers()[graph::index(t)];
        results_.push_back({t, i + 1, last == NodeId::None ? i + 1 : position[graph::index(last)], static_cast<double>(results.bytes(t)),
                            results.is_saved(t)});
      }
    find_places();
    weigh();
  }

  /// The cuts, the part's end included.
  [[nodiscard]] std::vector<std::size_t> best() const {
    double least = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> cuts{nodes_.size()};
    for (const double bound : bounds()) {
      auto [kept, chosen] = cuts_within(bound);
      if (kept * in_flight_ + bound >= least) continue;
      least = kept * in_flight_ + bound;
      cuts = std::move(chosen);
    }
    return cuts;
  }

  /// Decides about what the first `segments` segments make: what is read inside its segment alone is dropped.
  void drop(const std::vector<std::size_t>& cuts, std::size_t segments, std::vector<bool>& dropped) const {
    for (const Result& r : results_) {
      const auto segment = static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), r.made) - cuts.begin());
      if (segment < segments) dropped[graph::index(r.tensor)] = r.last <= cuts[segment];
    }
  }

 private:
  /// Where no fewer bytes cross one node earlier or later.
  void find_places() {
    std::vector<double> crossing(nodes_.size() + 2, 0);
    for (const Result& r : results_)
      for (std::size_t c = r.made; c < r.last; ++c) crossing[c] += r.bytes;
    std::vector<std::size_t> low;
    for (std::size_t c = 1; c < nodes_.size(); ++c) {
      const bool first = c == 1 || crossing[c] <= crossing[c - 1], last = c + 1 == nodes_.size() || crossing[c] <= crossing[c + 1];
      if (first && last) low.push_back(c);
    }
    const std::size_t stride = low.size() / kMostCuts + 1;
    places_.push_back(0);
    for (std::size_t i = 0; i < low.size(); i += stride) places_.push_back(low[i]);
    if (!nodes_.empty()) places_.push_back(nodes_.size());
  }

  [[nodiscard]] double& at(std::vector<double>& table, std::size_t from, std::size_t to) const { return table[from * places_.size() + to]; }
  [[nodiscard]] double at(const std::vector<double>& table, std::size_t from, std::size_t to) const {
    return table[from * places_.size() + to];
  }

  void weigh() {
    kept_.assign(places_.size() * places_.size(), 0);
    inside_ = kept_;
    for (std::size_t to = 1; to < places_.size(); ++to) {
      std::vector<double> kept(nodes_.size() + 2, 0), inside = kept;  // by the node that made it
      for (const Result& r : results_) {
        if (r.made > places_[to]) continue;
        (r.last > places_[to] ? kept : inside)[r.made] += r.last > places_[to] || r.saved ? r.bytes : 0;
      }
      double kept_since = 0, inside_since = 0;
      for (std::size_t from = to; from-- > 0;) {
        for (std::size_t made = places_[from] + 1; made <= places_[from + 1]; ++made)
          kept_since += kept[made], inside_since += inside[made];
        at(kept_, from, to) = kept_since;
        at(inside_, from, to) = inside_since;
      }
    }
  }

  [[nodiscard]] std::vector<double> bounds() const {
    std::set<double> all(inside_.begin(), inside_.end());
    all.erase(0);
    if (all.empty()) return {0};
    if (places_.size() <= kFewCuts) return {all.begin(), all.end()};
    std::vector<double> chosen;
    const std::vector<double> sorted(all.begin(), all.end());
    for (int i = 1; i <= kBounds; ++i) chosen.push_back(sorted[(sorted.size() - 1) * static_cast<std::size_t>(i) / kBounds]);
    return chosen;
  }

  /// Fewest bytes kept such that no segment has more than `bound`, and where to cut for that.
  [[nodiscard]] std::pair<double, std::vector<std::size_t>> cuts_within(double bound) const {
    const auto none = std::numeric_limits<double>::infinity();
    std::vector<double> least(places_.size(), none);
    std::vector<std::size_t> before(places_.size(), 0);
    least[0] = 0;
    for (std::size_t to = 1; to < places_.size(); ++to)
      for (std::size_t from = 0; from < to; ++from) {
        const double kept = least[from] + at(kept_, from, to);
        if (at(inside_, from, to) > bound || kept >= least[to]) continue;
        least[to] = kept;
        before[to] = from;
      }
    if (least.back() == none) return {none, {}};
    std::vector<std::size_t> cuts;
    for (std::size_t p = places_.size() - 1; p > 0; p = before[p]) cuts.push_back(places_[p]);
    std::reverse(cuts.begin(), cuts.end());
    return {least.back(), cuts};
  }

  double in_flight_;
  std::vector<NodeId> nodes_;
  std::vector<Result> results_;
  std::vector<std::size_t> places_;
  std::vector<double> kept_, inside_;  ///< [from * places + to]: bytes that cross `to` and were made since `from`; saved ones in between
};

/// The segments of a part that are worth dropping.
struct KeptSegments {
  Cutting cutting;
  std::vector<std::size_t> cuts;
  std::size_t dropped = 0;
};

KeptSegments segments_of(const ForwardResults& results, const Pipeline& pipeline, int part) {
  const int stage = pipeline.places.empty() ? 0 : pipeline.places[static_cast<std::size_t>(part)].stage;
  const int in_flight = pipeline.schedule->in_flight(stage, pipeline.shape);
  Cutting cutting(results, part, in_flight);
  auto cuts = cutting.best();
  const bool backward_follows = in_flight == 1 && pipeline.shape.chunks == 1;
  const std::size_t dropped = backward_follows ? cuts.size() - 1 : cuts.size();
  return {std::move(cutting), std::move(cuts), dropped};
}

}  // namespace

Recomputation with_full_segments(Recomputation chosen, std::size_t segments, const ForwardResults& results, const Pipeline& pipeline) {
  for (int part = 0; part < results.parts(); ++part) {
    const auto s = segments_of(results, pipeline, part);
    s.cutting.drop(s.cuts, std::min(segments, s.dropped), chosen.dropped);
  }
  return {results.with_views(std::move(chosen.dropped))};
}

Recomputation full_recomputation(const ForwardResults& results, const Pipeline& pipeline) {
  Recomputation none{std::vector<bool>(results.graph().tensors().size(), false)};
  return with_full_segments(std::move(none), std::numeric_limits<std::size_t>::max(), results, pipeline);
}

std::size_t segment_count(const ForwardResults& results, const Pipeline& pipeline) {
  std::size_t most = 0;
  for (int part = 0; part < results.parts(); ++part) most = std::max(most, segments_of(results, pipeline, part).dropped);
  return most;
}

}  // namespace rehearsal::plan
