#include "cli/comparison_json.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

void add_seconds(Json& j, double predicted, double measured) {
  j["predicted_seconds"] = predicted;
  j["measured_seconds"] = measured;
  j["error_seconds"] = predicted - measured;
}

}  // namespace

Json to_json(const traces::Comparison& c, std::size_t top) {
  Json result;
  result["step"] = Json{{"predicted_seconds", c.predicted_step}, {"measured_seconds", c.measured_step}, {"error", c.step_error()}};
  add_seconds(result["rows_add_up_to"], c.predicted_rows, c.measured_rows);
  add_seconds(result["input"], c.predicted_input, c.measured_input);
  result["rows"] = Json::array();
  for (const auto& row : c.rows) {
    Json j{{"phase", row.phase}, {"op", row.op}, {"instructions", row.instructions}};
    add_seconds(j, row.predicted, row.measured);
    result["rows"].push_back(std::move(j));
  }
  result["instructions"] = Json::array();
  for (std::size_t n = 0; n < std::min(top, c.instructions.size()); ++n) {
    const auto& i = c.instructions[n];
    Json j{{"phase", i.phase}, {"op", i.op}, {"name", i.name}};
    add_seconds(j, i.predicted, i.measured);
    result["instructions"].push_back(std::move(j));
  }
  return result;
}

}  // namespace rehearsal::cli
