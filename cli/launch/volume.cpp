#include "cli/launch/volume.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/join.hpp"

namespace rehearsal::cli {
namespace {

namespace fs = std::filesystem;

bool is_in_volume(const std::string& path) {
  const auto plain = fs::path(path).lexically_normal();
  const auto seen = plain.is_absolute() ? plain.lexically_relative(kVolumePlace) : plain;
  return seen.empty() || *seen.begin() != "..";
}

/// The path in "--metrics=/tmp/m.jsonl", "tokens:/data/a.bin?seq=4" or "/tmp/m.jsonl" as it stands there; empty: none that begins at the
/// root or above the folder.
std::string outer_path(std::string word) {
  if (const auto equals = word.find('='); word.starts_with("--") && equals != std::string::npos) word.erase(0, equals + 1);
  const auto kind = word.find(":/");
  if (kind != std::string::npos && word.find('/') == kind + 1) word.erase(0, kind + 1);
  return word.starts_with("/") || word.starts_with("../") ? word.substr(0, word.find('?')) : "";
}

}  // namespace

void require_claim_name(const std::string& volume) {
  constexpr std::size_t kLongest = 253;
  const auto is_letter = [](unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool has_ends = !volume.empty() && is_letter(volume.front()) && is_letter(volume.back());
  if (has_ends && volume.size() <= kLongest && std::ranges::all_of(volume, [&](char c) { return is_letter(c) || c == '-' || c == '.'; }))
    return;
  throw BadInput("--volume '" + volume + "'",
                 "is no name of Kubernetes: write small letters, digits, - and . with a letter or digit at both ends");
}

void name_in_volume(LaunchJob& job, const Terminal& terminal) {
  const std::string place = kVolumePlace;
  if (!is_in_volume(job.plan_file)) {
    const auto name = fs::path(job.plan_file).filename().string();
    terminal.warn("pods see the volume alone, at " + place + ": copy " + job.plan_file + " to its top, where the manifest has it as " +
                  name);
    job.plan_file = name;
  }
  std::vector<std::string> outside;
  auto words = job.options;
  words.push_back(job.words.model.model);
  for (const auto& word : words)
    if (const auto path = outer_path(word); !path.empty() && !is_in_volume(path)) outside.push_back(path);
  if (!outside.empty())
    terminal.warn("pods see the volume alone, at " + place + ", and what they write elsewhere is lost: " + joined(outside) +
                  " should be below it, or be written without a / in front");
}

}  // namespace rehearsal::cli
