#include "plan/context.hpp"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/join.hpp"

namespace rehearsal::plan {
namespace {

using nlohmann::json;

constexpr std::size_t kHashDigits = 16;
constexpr std::array<std::string_view, 8> kContextKeys{"model", "model_hash", "batch",    "loss",
                                                       "dtype", "optimizer",  "training", "searched_on"};

/// The object under "context", which says in refusals where it stands.
struct ContextJson {
  const json& values;
  const std::string& path;

  [[noreturn]] void refuse(const std::string& key, const std::string& what) const { throw BadInput(path + ": context." + key, what); }

  [[nodiscard]] const json& required(const std::string& key) const {
    if (!values.contains(key)) refuse(key, "is missing");
    return values.at(key);
  }

  [[nodiscard]] std::string text(const std::string& key) const {
    const auto& value = required(key);
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) refuse(key, "must be a text that is not empty");
    return value.get<std::string>();
  }

  [[nodiscard]] std::int64_t batch() const {
    const json batch = required("batch");
    if (!batch.is_number_integer() || batch < 1 || batch > std::numeric_limits<std::int64_t>::max())
      refuse("batch", "must be a whole number of at least 1");
    return batch.get<std::int64_t>();
  }

  [[nodiscard]] std::string hash() const {
    auto hash = text("model_hash");
    if (hash.size() != kHashDigits || hash.find_first_not_of("0123456789abcdef") != std::string::npos)
      refuse("model_hash", "must be 16 hexadecimal digits (0-9, a-f)");
    return hash;
  }

  [[nodiscard]] std::string dtype() const {
    auto dtype = text("dtype");
    if (find_arithmetic(dtype) == nullptr) refuse("dtype", "must be one of " + joined(arithmetic_rows(), ", ", &ArithmeticRow::name));
    return dtype;
  }

  /// A text, a number, or a list of texts for each.
  [[nodiscard]] Words words(const std::string& key) const {
    Words words;
    if (!values.contains(key)) return words;
    if (!values.at(key).is_object()) refuse(key, "must be an object of options and their values");
    for (const auto& [name, value] : values.at(key).items()) {
      const auto list = value.is_array() ? value : json::array({value});
      if (list.empty()) refuse(key + "." + name, "is an empty list; leave the option out");
      for (const auto& entry : list) {
        const bool text = entry.is_string() && !entry.get_ref<const std::string&>().empty();
        if (!text && !entry.is_number()) refuse(key + "." + name, "must be a text that is not empty, or a list of texts");
        words[name].push_back(entry.is_string() ? entry.get<std::string>() : entry.dump());
      }
    }
    return words;
  }
};

nlohmann::ordered_json words_json(const Words& words) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, values] : words) {
    if (values.size() == 1)
      object[name] = values.front();
    else
      object[name] = values;
  }
  return object;
}

}  // namespace

PlanContext read_context(const json& context, const std::string& path) {
  if (!context.is_object()) throw BadInput(path + ": context", "must be an object with model, model_hash, batch, loss and dtype");
  const ContextJson in{context, path};
  for (const auto& [key, value] : context.items())
    if (std::ranges::find(kContextKeys, key) == kContextKeys.end())
      in.refuse(key, "is no key here; known keys: " + joined(kContextKeys));
  return {in.text("model"), in.hash(), in.batch(), in.text("loss"), in.dtype(), context.contains("optimizer") ? in.text("optimizer") : "",
          in.words("training"), in.words("searched_on")};
}

nlohmann::ordered_json context_json(const PlanContext& context) {
  nlohmann::ordered_json object{{"model", context.model},
                                {"model_hash", context.model_hash},
                                {"batch", context.batch},
                                {"loss", context.loss},
                                {"dtype", context.dtype}};
  if (!context.optimizer.empty()) object["optimizer"] = context.optimizer;
  if (!context.training.empty()) object["training"] = words_json(context.training);
  if (!context.searched_on.empty()) object["searched_on"] = words_json(context.searched_on);
  return object;
}

}  // namespace rehearsal::plan
