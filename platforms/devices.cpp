#include "platforms/devices.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "platforms/device_json.hpp"
#include "platforms/embedded.hpp"

namespace rehearsal::platforms {
namespace {

using Words = std::set<std::string, std::less<>>;

Words words_of(std::string_view text) {
  Words words;
  std::string word;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.insert(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.insert(std::move(word));
  return words;
}

std::string without_remarks(std::string_view text) {
  std::string rest;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) rest += c;
    if (c == ')' && depth > 0) --depth;
  }
  return rest;
}

Device parse_device(const EmbeddedFile& file) {
  return read_device(ObjectReader(nlohmann::json::parse(file.text), "catalog/devices/" + std::string(file.name) + ".json", ""));
}

/// A name that a device goes by.
struct Called {
  Words words;
  std::size_t letters = 0;
  const Device* device = nullptr;
};

struct Index {
  std::vector<Device> devices;
  std::vector<Called> names;

  Index() {
    for (const auto& file : embedded_devices()) devices.push_back(parse_device(file));
    for (const auto& device : devices) {
      add(device.name, device);
      for (const auto& alias : device.aliases) add(alias, device);
    }
  }
  void add(const std::string& name, const Device& device) {
    Called called{words_of(name), 0, &device};
    for (const auto& word : called.words) called.letters += word.size();
    names.push_back(std::move(called));
  }
};

const Index& index() {
  static const Index kIndex;
  return kIndex;
}

const Device* best_match(const Words& words) {
  const Called* best = nullptr;
  bool tie = false;
  const auto rank = [](const Called& c) { return std::pair(c.words.size(), c.letters); };
  for (const auto& called : index().names) {
    if (!std::includes(words.begin(), words.end(), called.words.begin(), called.words.end())) continue;
    if (best != nullptr && rank(called) < rank(*best)) continue;
    tie = best != nullptr && rank(called) == rank(*best) && called.device != best->device;
    best = &called;
  }
  return best == nullptr || tie ? nullptr : best->device;
}

}  // namespace

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const auto& file : embedded_devices()) names.emplace_back(file.name);
  std::sort(names.begin(), names.end());
  return names;
}

Device load_device(std::string_view name) {
  for (const auto& file : embedded_devices())
    if (file.name == name) return parse_device(file);
  const auto near = nearest_name(name, device_names());
  const std::string hint = near ? "; did you mean \"" + *near + "\"?" : "; `rehearse platform devices` lists them";
  throw BadInput("device \"" + std::string(name) + "\"", "is not in the catalogue" + hint);
}

const Device* find_device(std::string_view text) {
  const auto* whole = best_match(words_of(text));
  return whole != nullptr ? whole : best_match(words_of(without_remarks(text)));
}

}  // namespace rehearsal::platforms
