#pragma once
// Which replicas hold the blocks of a center (Plan::servers).

#include <string>
#include <vector>

namespace rehearsal::plan {

class Servers {
 public:
  /// All replicas.
  Servers() = default;
  /// So many, spread evenly.
  explicit Servers(int number) : number_(number) {}
  /// Those of these numbers, in ascending order, each once.
  explicit Servers(std::vector<int> replicas) : named_(std::move(replicas)) {}

  [[nodiscard]] bool all() const { return number_ == 0 && named_.empty(); }
  /// Empty where servers are spread evenly.
  [[nodiscard]] const std::vector<int>& named() const { return named_; }
  [[nodiscard]] int count(int replicas) const;
  /// The replica that is a server, both counted from 0.
  [[nodiscard]] int replica(int server, int replicas) const;
  /// -1: the replica is no server.
  [[nodiscard]] int server_at(int replica, int replicas) const;
  /// There are at least so many replicas.
  [[nodiscard]] int least_replicas() const;
  friend bool operator==(const Servers&, const Servers&) = default;

 private:
  int number_ = 0;
  std::vector<int> named_;
};

/// "all", "3" or "at:0+4". Throws BadInput saying what would be right.
[[nodiscard]] Servers parse_servers(const std::string& text);
[[nodiscard]] std::string to_text(const Servers&);

}  // namespace rehearsal::plan
