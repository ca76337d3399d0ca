#include "plan/servers.hpp"

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "plan/plan_keys.hpp"

namespace rehearsal::plan {
namespace {

constexpr std::string_view kAll = "all", kAt = "at:";

/// "0+4"
std::vector<int> replicas_in(std::string_view text) {
  std::vector<int> replicas;
  for (const auto& one : split(text, '+')) {
    const auto number = parse_number<int>(one);
    if (!number || *number < 0 || *number >= kMostRanks || (!replicas.empty() && *number <= replicas.back()))
      throw BadInput("must name replicas from 0 on in ascending order, as in at:0+4");
    replicas.push_back(*number);
  }
  return replicas;
}

}  // namespace

int Servers::count(int replicas) const {
  if (!named_.empty()) return static_cast<int>(named_.size());
  return number_ == 0 ? replicas : number_;
}

int Servers::replica(int server, int replicas) const {
  if (!named_.empty()) return named_[static_cast<std::size_t>(server)];
  return static_cast<int>(static_cast<std::int64_t>(server) * replicas / count(replicas));
}

int Servers::server_at(int replica, int replicas) const {
  if (!named_.empty()) {
    const auto found = std::ranges::lower_bound(named_, replica);
    return found != named_.end() && *found == replica ? static_cast<int>(found - named_.begin()) : -1;
  }
  // The first server whose replica is not before this one.
  const auto all = static_cast<std::int64_t>(count(replicas));
  const auto server = static_cast<int>((replica * all + replicas - 1) / replicas);
  return server < all && this->replica(server, replicas) == replica ? server : -1;
}

int Servers::least_replicas() const { return named_.empty() ? number_ : named_.back() + 1; }

Servers parse_servers(const std::string& text) {
  if (find_name(text, {kAll})) return {};
  if (lower_case(text).starts_with(kAt)) return Servers(replicas_in(std::string_view(text).substr(kAt.size())));
  const auto number = parse_number<int>(text);
  if (!number || *number < 1 || *number > kMostRanks)
    throw BadInput("must be all, a number of replicas (1 to dp), or which ones, as in at:0+4");
  return Servers(*number);
}

std::string to_text(const Servers& servers) {
  if (servers.all()) return std::string(kAll);
  if (servers.named().empty()) return std::to_string(servers.count(0));
  std::string text(kAt);
  for (const int replica : servers.named()) text += (text.size() > kAt.size() ? "+" : "") + std::to_string(replica);
  return text;
}

}  // namespace rehearsal::plan
