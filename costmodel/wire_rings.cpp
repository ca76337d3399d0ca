#include "costmodel/wire_rings.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

namespace rehearsal::costmodel {
namespace {

constexpr int kMostRanks = 12;       // more are not searched
constexpr int kMostTries = 200'000;  // steps of the search; real nodes need few: the first cycles found mostly fit together

class RingSearch {
 public:
  RingSearch(const platforms::IntraLink& intra, int ranks) : ranks_(ranks) {
    for (const auto& w : intra.wires)
      if (w.a < ranks && w.b < ranks && w.a != w.b) free_[at(w.a)][at(w.b)] = free_[at(w.b)][at(w.a)] = free_[at(w.a)][at(w.b)] + w.count;
    most_ = 1 << 20;
    for (int d = 0; d < ranks; ++d) most_ = std::min(most_, degree(d));
  }

  [[nodiscard]] int degree(int d) const {
    int wires = 0;
    for (int other = 0; other < ranks_; ++other) wires += free_[at(d)][at(other)];
    return wires;
  }

  /// Cycles through all ranks that share no wire; each takes two wires of every device.
  int cycles() {
    most_ /= 2;
    path_ = {0};
    extend(0);
    return best_;
  }

 private:
  using Row = std::array<int, kMostRanks>;
  static std::size_t at(int d) { return static_cast<std::size_t>(d); }

  [[nodiscard]] bool over() const { return best_ >= most_ || tries_ > kMostTries; }

  void extend(int found) {
    if (over()) return;
    ++tries_;
    const int from = path_.back();
    if (static_cast<int>(path_.size()) == ranks_) return close(found);
    for (const int to : next_of(from)) {
      if (over()) return;
      take(from, to, 1);
      path_.push_back(to);
      extend(found);
      path_.pop_back();
      take(from, to, -1);
    }
  }

  /// Most free wires first, so that the cycles use all pairs alike.
  [[nodiscard]] std::vector<int> next_of(int from) const {
    std::vector<int> next;
    for (int to = 1; to < ranks_; ++to)
      if (free_[at(from)][at(to)] > 0 && std::ranges::find(path_, to) == path_.end()) next.push_back(to);
    std::ranges::stable_sort(next, std::greater<>{}, [&](int to) { return free_[at(from)][at(to)]; });
    return next;
  }

  /// The path is a cycle if a wire leads home; then another is looked for in what is left.
  void close(int found) {
    const int last = path_.back();
    if (free_[at(last)][0] == 0) return;
    take(last, 0, 1);
    best_ = std::max(best_, found + 1);
    const auto path = path_;
    path_ = {0};
    extend(found + 1);
    path_ = path;
    take(last, 0, -1);
  }

  void take(int a, int b, int wires) {
    free_[at(a)][at(b)] -= wires;
    free_[at(b)][at(a)] -= wires;
  }

  int ranks_, most_ = 0, best_ = 0, tries_ = 0;
  std::array<Row, kMostRanks> free_{};
  std::vector<int> path_;
};

int least_wires(const platforms::IntraLink& intra, int ranks) {
  std::vector<int> degree(static_cast<std::size_t>(ranks));
  for (const auto& w : intra.wires) {
    if (w.a >= ranks || w.b >= ranks) continue;
    degree[static_cast<std::size_t>(w.a)] += w.count;
    degree[static_cast<std::size_t>(w.b)] += w.count;
  }
  return *std::ranges::min_element(degree);
}

}  // namespace

int ring_count(const platforms::IntraLink& intra, int ranks) {
  if (ranks > kMostRanks) return least_wires(intra, ranks);
  RingSearch search(intra, ranks);
  return ranks <= 2 ? search.degree(0) : 2 * search.cycles();
}

}  // namespace rehearsal::costmodel
