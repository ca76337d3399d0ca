#include "platforms/schema_check.hpp"

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "base/error.hpp"
#include "platforms/json.hpp"

namespace rehearsal::platforms {
namespace {

void parse_schema(std::string_view text, valijson::Schema& schema) {
  const auto document = nlohmann::json::parse(text);
  valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(document), schema);
}

}  // namespace

void check_against_schema(const nlohmann::json& platform, const std::string& where) {
  check_against_schema(platform, where, {"platform", platform_schema()});
}

void check_against_schema(const nlohmann::json& value, const std::string& where, const PublishedSchema& published) {
  valijson::Schema schema;
  parse_schema(published.text, schema);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(value), &results)) return;
  std::string message;
  // The deepest complaint is the cause; the others say that its parents are wrong because of it.
  std::size_t depth = 0;
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    if (error.context.size() < depth) continue;
    depth = error.context.size();
    message.clear();
    for (const auto& step : error.context) message += step;
    message.append(": ").append(error.description);
  }
  throw BadInput(where, message.insert(0, "does not follow the " + std::string(published.noun) + " schema at "));
}

}  // namespace rehearsal::platforms
