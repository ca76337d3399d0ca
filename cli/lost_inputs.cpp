#include "cli/lost_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"

namespace rehearsal::cli {
namespace {

namespace fs = std::filesystem;

/// Every option of a command that names a file which it writes.
constexpr std::string_view kOutputs[] = {"metrics", "trace", "export", "outputs", "output", "html",     "svg",
                                         "dot",     "json",  "pnml",   "csv",     "chrome", "residuals"};
/// Commands that take a file further.
constexpr std::string_view kWriteAnew[] = {"calibrate", "learn"};

/// A value of an option, and the file that it names.
struct Named {
  std::string option;
  fs::path file;
};

/// And may be looked at.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Data is named KIND:PATH?KEY=VALUE.
fs::path path_in(const std::string& value) {
  if (is_there(value)) return value;
  const auto colon = value.find(':');
  const auto from = colon == std::string::npos ? 0 : colon + 1;
  return value.substr(from, value.find('?', from) - from);
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  // The canonical path of a file that is not there yet stays relative where it was.
  const auto whole = [&](const fs::path& path) { return fs::weakly_canonical(fs::absolute(path, ignored), ignored); };
  return whole(a) == whole(b) || fs::equivalent(a, b, ignored);
}

bool is_device(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
}

}  // namespace

void refuse_lost_inputs(const CLI::App& command) {
  if (std::ranges::find(kWriteAnew, command.get_name()) != std::end(kWriteAnew)) return;
  std::vector<Named> written, read;
  for (const auto* option : command.get_options()) {
    const bool writes = std::ranges::find(kOutputs, option->get_single_name()) != std::end(kOutputs);
    const auto name = option->get_positional() ? option->get_single_name() : "--" + option->get_single_name();
    for (const auto& value : option->results()) {
      const auto file = writes ? fs::path(value) : path_in(value);
      if (file.empty() || is_device(file) || (!writes && !is_there(file))) continue;
      (writes ? written : read).push_back({name, file});
    }
  }
  for (auto w = written.begin(); w != written.end(); ++w) {
    for (const auto& r : read)
      if (is_same_file(w->file, r.file))
        throw BadInput(w->option + " " + w->file.string(),
                       "is the file that " + r.option + " names, which would be lost; give another name");
    for (auto other = written.begin(); other != w; ++other)
      if (is_same_file(w->file, other->file))
        throw BadInput(w->option + " " + w->file.string(), "is where " + other->option + " writes; give another name");
  }
}

}  // namespace rehearsal::cli
