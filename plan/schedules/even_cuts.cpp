#include "plan/schedules/even_cuts.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

namespace rehearsal::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;

/// How far cuts up to some piece are from where they would be in a row of sand, and what they let cross.
struct Cutting {
  double off = kInfinity, crossing = 0;
  friend auto operator<=>(const Cutting&, const Cutting&) = default;
};

/// Of a way to cut: of its stages, of its cuts.
struct CutBounds {
  double longest = kInfinity, widest = 0;
};

class EvenCuts {
 public:
  explicit EvenCuts(const CutRow& row) : row_(row), pieces_(row.costs.front().size()), stages_(row.stages) {
    for (const auto& costs : row.costs) {
      auto& sums = prefix_.emplace_back(pieces_ + 1, 0.0);
      std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
    }
    double speeds = 0, end = 0;
    for (std::size_t s = 0; s < stages_; ++s) speeds += speed(s);
    for (std::size_t s = 0; s < stages_; ++s) ends_.push_back(end += speed(s) / speeds);
  }

  [[nodiscard]] std::vector<std::size_t> best() {
    CutBounds bounds;
    for (const double widest : widths()) {
      const double shorter = (bounds.longest + bounds.widest) * (1 - kRounding) - widest;
      if (shorter <= 0) break;
      const auto places = places_within(widest);
      if (places.size() < stages_ || (shorter < kInfinity && !suffices(shorter, places))) continue;
      bounds = {least_longest(places), widest};
    }
    return row_.devices.empty() ? evenest_within(bounds) : most_even_devices(bounds);
  }

 private:
  /// Sums of what pieces cost a stage.
  [[nodiscard]] const std::vector<double>& sums(std::size_t stage) const { return prefix_[prefix_.size() == 1 ? 0 : stage]; }
  /// Of all pieces, by time.
  [[nodiscard]] double speed(std::size_t stage) const { return sums(stage).back() > 0 ? 1 / sums(stage).back() : 1; }
  [[nodiscard]] double time(std::size_t stage, std::size_t first, std::size_t end) const { return sums(stage)[end] - sums(stage)[first]; }

  /// That cuts have, the narrowest first.
  [[nodiscard]] std::vector<double> widths() const {
    std::vector<double> found(row_.crossing.begin() + 1, row_.crossing.begin() + static_cast<std::ptrdiff_t>(pieces_));
    std::ranges::sort(found);
    const auto alike = [](double narrow, double wide) { return wide <= narrow * (1 + kRounding); };
    found.erase(std::unique(found.begin(), found.end(), alike), found.end());
    return found;
  }

  /// Where stages may end: at cuts that are no wider, and behind all pieces.
  [[nodiscard]] std::vector<std::size_t> places_within(double widest) const {
    std::vector<std::size_t> places;
    for (std::size_t i = 1; i < pieces_; ++i)
      if (row_.crossing[i] <= widest * (1 + kRounding)) places.push_back(i);
    places.push_back(pieces_);
    return places;
  }

  /// Whether stages of at most so much time take all. Of the places where a stage may begin the last one leaves it least.
  [[nodiscard]] bool suffices(double longest, const std::vector<std::size_t>& places) const {
    constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
    std::vector<bool> begins(places.size(), false), ends(places.size(), false);
    for (std::size_t s = 0; s < stages_; ++s) {
      std::size_t first = s == 0 ? 0 : kNowhere;
      for (std::size_t i = 0; i < places.size(); ++i) {
        ends[i] = first != kNowhere && time(s, first, places[i]) <= longest;
        if (begins[i]) first = places[i];
      }
      begins.swap(ends);
    }
    return begins.back();
  }

  [[nodiscard]] double least_longest(const std::vector<std::size_t>& places) const {
    constexpr int kHalvings = 40;
    double low = 0, high = 0;
    for (const auto& of_pieces : prefix_) high = std::max(high, of_pieces.back());
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (suffices(middle, places) ? high : low) = middle;
    }
    return high;
  }

  /// Stage by stage: the best cutting of the pieces before each, from the best where the stage may have begun. Those places are a
  /// window that moves up with the piece.
  [[nodiscard]] std::vector<std::size_t> evenest_within(const CutBounds& bounds) {
    std::vector<Cutting> before(pieces_ + 1);
    before.front() = {0, 0};
    from_.assign(stages_, std::vector<std::size_t>(pieces_ + 1, 0));
    for (std::size_t s = 0; s < stages_; ++s) {
      std::vector<Cutting> behind(pieces_ + 1);
      std::deque<std::size_t> window;  // best first, each the best from itself on
      for (std::size_t end = s + 1; end <= pieces_; ++end) {
        while (!window.empty() && before[end - 1] <= before[window.back()]) window.pop_back();
        window.push_back(end - 1);
        while (!window.empty() && time(s, window.front(), end) > bounds.longest * (1 + kRounding)) window.pop_front();
        if (window.empty() || (end < pieces_ && row_.crossing[end] > bounds.widest * (1 + kRounding))) continue;
        behind[end] = before[window.front()];
        from_[s][end] = window.front();
        if (s + 1 < stages_ && end < pieces_) add_cut(behind[end], s, end);
      }
      before = std::move(behind);
    }
    return cuts_found();
  }

  /// With stages that are a little longer than they must be.
  [[nodiscard]] std::vector<std::size_t> most_even_devices(const CutBounds& least) {
    constexpr int kSteps = 6;
    constexpr double kStep = 0.05;
    std::vector<std::size_t> best;
    double shortest = kInfinity;
    for (int step = 0; step <= kSteps; ++step) {
      auto cuts = evenest_within({least.longest * (1 + kStep * step), least.widest});
      const double longest = longest_device(cuts);
      if (longest >= shortest * (1 - kRounding)) continue;
      shortest = longest;
      best = std::move(cuts);
    }
    return best;
  }

  [[nodiscard]] double longest_device(const std::vector<std::size_t>& cuts) const {
    std::vector<double> times(static_cast<std::size_t>(*std::ranges::max_element(row_.devices)) + 1, 0.0);
    for (std::size_t s = 0; s < stages_; ++s)
      times[static_cast<std::size_t>(row_.devices[s])] += time(s, s == 0 ? 0 : cuts[s - 1], s + 1 == stages_ ? pieces_ : cuts[s]);
    return *std::ranges::max_element(times);
  }

  void add_cut(Cutting& cutting, std::size_t stage, std::size_t at) const {
    const double off = sums(stage)[at] * speed(stage) - ends_[stage];
    cutting.crossing += row_.crossing[at];
    cutting.off += off * off;
  }

  [[nodiscard]] std::vector<std::size_t> cuts_found() const {
    std::vector<std::size_t> cuts(stages_ - 1);
    std::size_t end = pieces_;
    for (std::size_t s = stages_; s-- > 1;) cuts[s - 1] = end = from_[s][end];
    return cuts;
  }

  const CutRow& row_;
  std::size_t pieces_, stages_;
  std::vector<std::vector<double>> prefix_;     ///< of the costs
  std::vector<double> ends_;                    ///< of stages, were they shares of all by their speeds
  std::vector<std::vector<std::size_t>> from_;  ///< [stage][piece behind it]: its first piece
};

}  // namespace

std::vector<std::size_t> even_cuts(const CutRow& row) { return EvenCuts(row).best(); }

}  // namespace rehearsal::plan
