#include "plan/sharding/linear.hpp"

#include <algorithm>
#include <iterator>

namespace rehearsal::plan {
namespace {

struct LinearRow {
  std::string_view op;
  LinearIn in;
};

constexpr LinearRow kLinear[] = {
    {"Reshape", LinearIn::First},    {"Transpose", LinearIn::First}, {"Identity", LinearIn::First}, {"Neg", LinearIn::First},
    {"Scale", LinearIn::First},      {"ReduceSum", LinearIn::First}, {"Slice", LinearIn::First},    {"SliceGrad", LinearIn::First},
    {"GatherGrad", LinearIn::First}, {"Add", LinearIn::All},         {"Sub", LinearIn::All},        {"Concat", LinearIn::All},
};

}  // namespace

std::optional<LinearIn> linear_in(std::string_view op) {
  const auto row = std::find_if(std::begin(kLinear), std::end(kLinear), [&](const LinearRow& r) { return r.op == op; });
  return row == std::end(kLinear) ? std::nullopt : std::optional(row->in);
}

std::vector<std::string_view> linear_operators() {
  std::vector<std::string_view> names;
  for (const LinearRow& row : kLinear) names.push_back(row.op);
  return names;
}

}  // namespace rehearsal::plan
