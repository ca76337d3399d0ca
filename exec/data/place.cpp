#include "exec/data/place.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::size_t kMostPaths = 1'000'000;

std::vector<std::string> numbers_between(const std::string& text, const std::string& begin, const std::string& end) {
  const auto first = parse_number<std::int64_t>(begin), last = parse_number<std::int64_t>(end);
  if (!first || !last || *first < 0 || *last < *first || *last - *first >= static_cast<std::int64_t>(kMostPaths))
    throw BadInput(text, "{" + begin + ".." + end + "} is no range; write {000..099}, the lower number first");
  std::vector<std::string> all;
  for (auto n = *first; n <= *last; ++n) {
    auto digits = std::to_string(n);
    if (digits.size() < begin.size()) digits.insert(0, begin.size() - digits.size(), '0');
    all.push_back(std::move(digits));
  }
  return all;
}

std::vector<std::string> choices_of(const std::string& text, const std::string& inside) {
  if (const auto dots = inside.find(".."); dots != std::string::npos)
    return numbers_between(text, inside.substr(0, dots), inside.substr(dots + 2));
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= inside.size();) {
    const auto comma = std::min(inside.find(',', at), inside.size());
    all.push_back(inside.substr(at, comma - at));
    at = comma + 1;
  }
  return all;
}

/// Files by a pattern of the shell.
std::vector<std::string> matching(const std::string& path) {
  if (path.find_first_of("*[") == std::string::npos || std::filesystem::exists(path)) return {path};
  glob_t found{};
  const int failed = ::glob(path.c_str(), 0, nullptr, &found);
  std::vector<std::string> all(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (failed != 0 || all.empty()) throw BadInput(path, "no file has a name like this");
  return all;
}

/// Cuts "?key=value&key=value" off.
std::map<std::string, std::string> take_keys(const std::string& source, std::string& path) {
  std::map<std::string, std::string> keys;
  const auto mark = path.rfind('?');
  if (mark == std::string::npos || path.find('=', mark) == std::string::npos) return keys;
  const auto list = path.substr(mark + 1);
  path.resize(mark);
  for (std::size_t at = 0; at < list.size();) {
    const auto end = std::min(list.find('&', at), list.size());
    const auto entry = list.substr(at, end - at);
    const auto equal = entry.find('=');
    if (equal == std::string::npos || equal == 0 || equal + 1 == entry.size())
      throw BadInput("--data " + source, "\"" + entry + "\" is no KEY=VALUE");
    if (!keys.emplace(entry.substr(0, equal), entry.substr(equal + 1)).second)
      throw BadInput("--data " + source, "gives " + entry.substr(0, equal) + " twice");
    at = end + 1;
  }
  return keys;
}

/// Cuts "kind:" off; nullptr where there is none.
const DataKind* take_kind(const std::string& source, std::string& path) {
  const auto colon = path.find(':');
  if (colon == std::string::npos || colon == 0 || path.substr(0, colon).find('/') != std::string::npos || std::filesystem::exists(path))
    return nullptr;
  const auto kinds = data_kinds();
  const auto name = known_name("--data " + source + ": kind of data", path.substr(0, colon), names_of_rows(kinds, &DataKind::name));
  path.erase(0, colon + 1);
  return &*std::find_if(kinds.begin(), kinds.end(), [&](const DataKind& kind) { return kind.name == name; });
}

const DataKind* recognised(const std::string& path) {
  for (const auto& kind : data_kinds())
    if (kind.recognises(path)) return &kind;
  if (path.ends_with(".tar.gz") || path.ends_with(".tgz") || path.ends_with(".tar.zst"))
    throw BadInput(path, "is compressed, and samples are read from the middle of a shard; unpack it to a .tar");
  if (path.ends_with(".bin")) throw BadInput(path, "does not say what it holds; write tokens:" + path + "?dtype=uint16");
  if (!std::filesystem::exists(path)) throw BadInput(path, "does not exist");
  std::string known;
  for (const auto& kind : data_kinds()) known += (known.empty() ? "" : ", ") + std::string(kind.name) + ": " + std::string(kind.files);
  throw BadInput(path, "is no data that is read (" + known + ")");
}

void check_keys(const std::string& source, const DataKind& kind, const std::map<std::string, std::string>& keys) {
  for (const auto& [key, value] : keys) {
    if (kind.keys.empty()) throw BadInput("--data " + source, "data of kind " + std::string(kind.name) + " takes no " + key);
    if (std::find(kind.keys.begin(), kind.keys.end(), key) == kind.keys.end())
      throw BadInput("--data " + source, "key \"" + key + "\" is unknown" + suggestion(key, kind.keys));
  }
}

}  // namespace

std::vector<std::string> expanded_braces(const std::string& text) {
  const auto open = text.find('{');
  if (open == std::string::npos) return {text};
  const auto close = text.find('}', open);
  if (close == std::string::npos) throw BadInput(text, "has a { without its }");
  const auto choices = choices_of(text, text.substr(open + 1, close - open - 1));
  const auto rests = expanded_braces(text.substr(close + 1));
  if (choices.size() * rests.size() > kMostPaths) throw BadInput(text, "means more than a million files");
  std::vector<std::string> all;
  for (const auto& choice : choices)
    for (const auto& rest : rests) all.push_back(text.substr(0, open) + choice + rest);
  return all;
}

FoundData find_data(const std::vector<std::string>& sources) {
  FoundData found;
  for (const auto& source : sources) {
    auto path = source;
    const auto keys = take_keys(source, path);
    const auto* kind = take_kind(source, path);
    for (const auto& pattern : expanded_braces(path))
      for (const auto& file : matching(pattern)) {
        const auto* own = kind != nullptr ? kind : recognised(file);
        if (found.kind != nullptr && found.kind != own)
          throw BadInput(file, "is data of kind " + std::string(own->name) + ", what came before is of kind " +
                                   std::string(found.kind->name) + "; a training reads one kind");
        found.kind = own;
        found.place.paths.push_back(file);
      }
    if (found.kind == nullptr) throw BadInput("--data " + source, "names no file");
    check_keys(source, *found.kind, keys);
    for (const auto& [key, value] : keys)
      if (!found.place.keys.emplace(key, value).second && found.place.keys[key] != value)
        throw BadInput("--data " + source, key + " is " + found.place.keys[key] + " for the data before it");
  }
  return found;
}

}  // namespace rehearsal::exec
