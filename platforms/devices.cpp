#include "platforms/devices.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "platforms/device_json.hpp"
#include "platforms/embedded_catalog.hpp"

namespace rehearsal::platforms {
namespace {

using Words = std::set<std::string, std::less<>>;

enum class Letter : std::uint8_t { None, Alphabetic, Digit };

Letter letter_of(char c) {
  const auto u = static_cast<unsigned char>(c);
  return std::isdigit(u) != 0 ? Letter::Digit : std::isalpha(u) != 0 ? Letter::Alphabetic : Letter::None;
}

/// Lower-case words; with `runs`, letters and digits of a word apart.
std::vector<std::string> words_in(std::string_view text, bool runs) {
  std::vector<std::string> words(1);
  Letter before = Letter::None;
  for (const char c : text) {
    const auto letter = letter_of(c);
    if (!words.back().empty() && (letter == Letter::None || (runs && letter != before))) words.emplace_back();
    if (letter != Letter::None) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    before = letter;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

Words words_of(std::string_view text) {
  const auto words = words_in(text, false);
  return {words.begin(), words.end()};
}

/// Also what two words make together and what parts of a word are: "RTX3090", "2080 Ti", "80 GB" go by several spellings.
Words spellings_of(std::string_view text) {
  Words all = words_of(text);
  for (const bool runs : {false, true}) {
    const auto words = words_in(text, runs);
    all.insert(words.begin(), words.end());
    for (std::size_t i = 1; i < words.size(); ++i) all.insert(words[i - 1] + words[i]);
  }
  return all;
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

std::vector<std::string_view> generation_names() {
  std::set<std::string_view> names;
  for (const auto& device : index().devices) names.insert(device.generation);
  return {names.begin(), names.end()};
}

Device load_device(std::string_view name) {
  const auto names = names_of_rows(embedded_devices(), &EmbeddedFile::name);
  const auto found = find_name(name, names);
  for (const auto& file : embedded_devices())
    if (found && file.name == *found) return parse_device(file);
  throw BadInput("device \"" + std::string(name) + "\"",
                 "is not in the catalogue" + suggestion(name, names) + " `rehearse platform devices` lists them");
}

std::vector<std::string> words_beside(const Device& device, std::string_view text) {
  Words known = words_of("NVIDIA Tesla GeForce AMD Instinct Intel Google GPU GB " + device.memory_type + " " + device.name);
  for (const auto& alias : device.aliases) known.merge(words_of(alias));
  const auto words = words_in(text, false);
  std::vector<std::string> unknown;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool counts_bytes = i + 1 < words.size() && words[i + 1] == "gb";  // "80 GB", which names write "80GB"
    if (known.contains(words[i]) || (counts_bytes && known.contains(words[i] + "gb"))) continue;
    const auto parts = words_in(words[i], true);
    const bool in_one = parts.size() > 1 && std::ranges::all_of(parts, [&](const auto& part) { return known.contains(part); });
    if (!in_one) unknown.push_back(words[i]);  // "rtx3090" is known as "rtx" and "3090"
  }
  return unknown;
}

Device device_called(std::string_view name) {
  if (const auto* found = find_device(name); found != nullptr && words_beside(*found, name).empty()) return *found;
  Names names;
  for (const auto& device : index().devices) {
    names.push_back(device.name);
    names.insert(names.end(), device.aliases.begin(), device.aliases.end());
  }
  throw BadInput("device \"" + std::string(name) + "\"",
                 "is not in the catalogue" + suggestion(name, names) + " `rehearse platform devices` lists them");
}

const Device* find_device(std::string_view text) {
  const Device* first = nullptr;
  for (const auto& words : {words_of(text), words_of(without_remarks(text)), spellings_of(text), spellings_of(without_remarks(text))}) {
    const auto* found = best_match(words);
    if (found != nullptr && words_beside(*found, text).empty()) return found;
    if (first == nullptr) first = found;
  }
  return first;
}

}  // namespace rehearsal::platforms
