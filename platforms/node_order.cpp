#include "platforms/node_order.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"

namespace rehearsal::platforms {
namespace {

constexpr std::size_t kMostPermuted = 4;

/// Its own, those it goes by, and the first words of its own: "V100" of "V100-SXM2-32GB".
Names names_of_device(const Device& device) {
  Names names{device.name};
  names.insert(names.end(), device.aliases.begin(), device.aliases.end());
  for (auto dash = device.name.find('-'); dash != std::string::npos; dash = device.name.find('-', dash + 1))
    names.push_back(std::string_view(device.name).substr(0, dash));
  return names;
}

/// The groups that `text` may mean: by their own names, else by those of their devices, else by their number.
NodeOrder groups_called(const Platform& platform, const std::string& text) {
  NodeOrder by_name, by_device, by_number;
  for (std::size_t n = 0; n < platform.nodes.size(); ++n) {
    const auto& group = platform.nodes[n];
    if (find_name(text, {group.name})) by_name.push_back(n);
    if (find_name(text, names_of_device(group.device))) by_device.push_back(n);
    if (text == std::to_string(n + 1)) by_number.push_back(n);
  }
  if (by_name.size() == 1) return by_name;
  if (!by_device.empty()) return by_device;
  return by_number.empty() ? by_name : by_number;
}

std::size_t group_called(const Platform& platform, const std::string& text) {
  const auto found = groups_called(platform, text);
  if (found.size() == 1) return found.front();
  throw Refusal("plan: fill: '" + text + "' is " + (found.empty() ? "no group" : "more than one group") + " of nodes of platform " +
                platform.name + "; it has " + joined(group_names(platform)));
}

/// Nodes alike, whatever they are called and however many there are.
bool are_alike(NodeGroup a, const NodeGroup& b) {
  a.name = b.name;
  a.count = b.count;
  return a == b;
}

bool put_alike(const Platform& platform, const NodeOrder& a, const NodeOrder& b) {
  return std::ranges::equal(a, b, [&](std::size_t one, std::size_t other) {
    const auto& nodes = platform.nodes;
    return one == other || (nodes[one].count == nodes[other].count && are_alike(nodes[one], nodes[other]));
  });
}

NodeOrder as_listed(const Platform& platform) {
  NodeOrder order(platform.nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

NodeOrder quickest_first(const Platform& platform) {
  auto order = as_listed(platform);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t n) {
    const auto& device = platform.nodes[n].device;
    return device.peak("f16").value_or(device.peak("f32").value_or(FlopsPerSecond(0))).value();
  });
  return order;
}

/// As few as say it: the others follow as they are listed.
std::vector<std::string> names_for(const Platform& platform, const NodeOrder& order) {
  auto named = order.size();
  while (named > 0 && std::is_sorted(order.begin() + static_cast<std::ptrdiff_t>(named) - 1, order.end())) --named;
  const auto names = group_names(platform);
  std::vector<std::string> first;
  for (std::size_t n = 0; n < named; ++n) first.push_back(names[order[n]]);
  return first;
}

}  // namespace

std::vector<std::string> group_names(const Platform& platform) {
  std::vector<std::string> names;
  for (std::size_t n = 0; n < platform.nodes.size(); ++n) {
    const auto& group = platform.nodes[n];
    const auto is_its_own = [&](const std::string& name) { return groups_called(platform, name) == NodeOrder{n}; };
    names.push_back(is_its_own(group.device.name) ? group.device.name : is_its_own(group.name) ? group.name : std::to_string(n + 1));
  }
  return names;
}

NodeOrder order_of_groups(const Platform& platform, const std::vector<std::string>& named) {
  NodeOrder order;
  for (const auto& text : named) {
    const auto group = group_called(platform, text);
    if (std::ranges::find(order, group) != order.end())
      throw Refusal("plan: fill: '" + text + "' is named twice, by different names; name each group of nodes once");
    order.push_back(group);
  }
  for (std::size_t n = 0; n < platform.nodes.size(); ++n)
    if (std::ranges::find(order, n) == order.end()) order.push_back(n);
  return order;
}

std::size_t groups_in_use(const Platform& platform, const NodeOrder& order, int ranks) {
  std::size_t used = 0;
  for (std::int64_t left = ranks; used < order.size() && (left > 0 || used == 0); ++used) {
    const auto& group = platform.nodes[order[used]];
    left -= std::int64_t{group.count} * group.devices;
  }
  return used;
}

Platform in_order(const Platform& platform, const NodeOrder& order) {
  if (order == as_listed(platform)) return platform;
  std::vector<int> first;  // node of each group
  int nodes = 0, devices = 0;
  for (const auto& group : platform.nodes) {
    first.push_back(nodes);
    nodes += group.count;
  }
  Platform result = platform;
  result.nodes.clear();
  result.slots.clear();
  for (const auto n : order) {
    const auto& group = result.nodes.emplace_back(platform.nodes[n]);
    devices += group.count * group.devices;
    for (int node = first[n]; node < first[n] + group.count; ++node)
      result.slots.push_back(platform.slots.empty() ? node : platform.slots[static_cast<std::size_t>(node)]);
  }
  if (result.device_limit && *result.device_limit > devices) result.device_limit = devices;
  return result;
}

std::vector<std::vector<std::string>> orders_worth_trying(const Platform& platform) {
  std::vector<NodeOrder> orders{quickest_first(platform)};
  const auto add = [&](const NodeOrder& order) {
    if (std::ranges::none_of(orders, [&](const NodeOrder& known) { return put_alike(platform, order, known); })) orders.push_back(order);
  };
  auto next = as_listed(platform);
  add(next);
  if (next.size() <= kMostPermuted)
    while (std::ranges::next_permutation(next).found) add(next);
  std::vector<std::vector<std::string>> named;
  for (const auto& order : orders) named.push_back(names_for(platform, order));
  return named;
}

}  // namespace rehearsal::platforms
