#pragma once
// Routes of a fabric that messages have used, looked up once, over links numbered in the order in which they were met.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "platforms/fabric.hpp"

namespace rehearsal::sim {

struct KnownRoute {
  std::vector<std::uint32_t> links;  ///< into Routes::links()
  double latency = 0;                ///< seconds
  double joules_per_byte = 0;        ///< busy power above idle power, over all links
};

class Routes {
 public:
  explicit Routes(const platforms::Platform& platform) : fabric_(platform) {}

  /// The reference stays valid.
  [[nodiscard]] const KnownRoute& between(int from, int to);
  [[nodiscard]] const std::vector<platforms::Link>& links() const { return links_; }
  [[nodiscard]] const platforms::Fabric& fabric() const { return fabric_; }

 private:
  [[nodiscard]] std::uint32_t number_of(std::uint32_t fabric_link);

  platforms::Fabric fabric_;
  platforms::Route scratch_;
  std::vector<platforms::Link> links_;
  std::unordered_map<std::uint32_t, std::uint32_t> numbers_;
  std::unordered_map<std::uint64_t, KnownRoute> routes_;
};

}  // namespace rehearsal::sim
