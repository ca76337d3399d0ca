#include "exec/checkpoint/trained_as.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "exec/checkpoint/checksum.hpp"

namespace rehearsal::exec {
namespace {

bool is_in_file(const graph::Contents& contents) {
  return std::holds_alternative<graph::FileRegion>(contents.source) || std::holds_alternative<graph::InlineBytes>(contents.source);
}

std::string text_of_option(const TrainedAs::Texts& texts, const std::string& name) {
  const auto at = texts.find(name);
  return at == texts.end() ? "none" : at->second;
}

std::optional<double> number_in(const TrainedAs::Texts& course, std::string_view name) {
  const auto at = course.find(std::string(name));
  return at == course.end() ? std::nullopt : parse_number<double>(at->second);
}

}  // namespace

std::string checksum_of_weights(const graph::Graph& model, const std::vector<std::string>& names) {
  Checksum sum;
  bool any = false;
  std::vector<std::byte> bytes;
  for (const auto& name : names) {
    const auto t = model.find(name);
    if (t == graph::TensorId::None || !is_in_file(model[t].contents)) continue;
    any = true;
    bytes.resize(static_cast<std::size_t>(graph::size_of(model[t].type).value()));
    graph::read_into(model[t].contents, model[t].type.shape, model[t].type.dtype, {}, bytes.data());
    sum.add(name).add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return any ? sum.text() : std::string();
}

std::string differences(const TrainedAs::Texts& then, const TrainedAs::Texts& now) {
  auto names = then;
  names.insert(now.begin(), now.end());
  std::string text;
  for (const auto& [name, any] : names) {
    const auto was = text_of_option(then, name), is = text_of_option(now, name);
    if (was != is) text += (text.empty() ? "" : ", ") + name + " " + was + " (now " + is + ")";
  }
  return text;
}

bool OtherSlots::begins(const graph::Tensor& tensor) const {
  return tensor.role == graph::TensorRole::Slot &&
         std::ranges::any_of(begin, [&](const std::string& slot) { return tensor.name.ends_with("." + slot); });
}

OtherSlots other_slots(const TrainedAs& then, const TrainedAs& now) {
  OtherSlots found;
  const auto optimizer = now.options.find(TrainedAs::kOptimizer);
  if (optimizer == now.options.end()) return found;
  for (const auto& slot : graph::conditional_slots(graph::optimizer_row(optimizer->second))) {
    const auto was = number_in(then.course, slot.only_with), is = number_in(now.course, slot.only_with);
    if (was && is && (*was == 0) != (*is == 0)) (*was == 0 ? found.begin : found.end).emplace_back(slot.name);
  }
  return found;
}

void require_same_weights(const TrainedAs& then, const TrainedAs& now, const std::string& asking) {
  constexpr double kRounding = 1e-9;  // of one alpha, written in another way
  if (then.adapter_factor > 0 && now.adapter_factor > 0 && std::fabs(now.adapter_factor / then.adapter_factor - 1) >= kRounding)
    throw BadInput("--lora", "multiplies adapters with " + nlohmann::json(now.adapter_factor).dump() + " (alpha / rank), " + asking +
                                 " was trained with " + nlohmann::json(then.adapter_factor).dump());
  if (!then.known() || then.untrained_checksum == now.untrained_checksum) return;
  throw BadInput(asking, "was trained beside weights that were not trained, such as " + then.untrained.front() +
                             ", and in this model they have other values: it belongs to another model file");
}

}  // namespace rehearsal::exec
