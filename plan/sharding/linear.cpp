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
    {"Reshape", LinearIn::First},
    {"Transpose", LinearIn::First},
    {"Identity", LinearIn::First},
    {"Neg", LinearIn::First},
    {"Scale", LinearIn::First},
    {"ReduceSum", LinearIn::First},
    {"Slice", LinearIn::First},
    {"SliceGrad", LinearIn::First},
    {"GatherGrad", LinearIn::First},
    {"Add", LinearIn::All},
    {"Sub", LinearIn::All},
    {"Concat", LinearIn::All},
    {"Roll", LinearIn::First},
    {"RotaryEmbedding", LinearIn::First},
    {"RotaryEmbeddingGrad", LinearIn::First},
};

struct OperandRow {
  std::string_view op;
  int operand;
};

constexpr OperandRow kAddends[] = {{"Gemm", 2}, {"Conv", 2}, {"ConvTranspose", 2}};

constexpr OperandRow kBatchStatistics[] = {
    {"BatchNormApply", 1}, {"BatchNormGradSums", 1}, {"BatchNormGradInput", 1}, {"BatchNormGradInput", 4}};

}  // namespace

int addend_of(std::string_view op) {
  const auto row = std::find_if(std::begin(kAddends), std::end(kAddends), [&](const OperandRow& r) { return r.op == op; });
  return row == std::end(kAddends) ? -1 : row->operand;
}

bool is_batch_statistic(std::string_view op, std::size_t operand) {
  return std::any_of(std::begin(kBatchStatistics), std::end(kBatchStatistics),
                     [&](const OperandRow& r) { return r.op == op && static_cast<std::size_t>(r.operand) == operand; });
}

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
