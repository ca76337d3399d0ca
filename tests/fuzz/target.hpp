#pragma once
// What every fuzz target shares: libFuzzer's entry, a scratch folder, and the rule that any input is taken or refused.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.hpp"

/// libFuzzer's entry, and that of replay.cpp: one input. Always returns 0; a defect ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rehearsal::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

/// A folder of this process that goes away with it.
class Scratch {
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / ("rehearsal-fuzz-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::string folder() const { return path_.string(); }
  /// Path of a file of the folder that now holds `bytes`.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

/// Runs `action`. An error that the input can cause is fine; one of our own, or of a type that nobody declares, is a defect.
template <class Action>
int taken_or_refused(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.status() != ExitStatus::Internal) return 0;
    std::fprintf(stderr, "internal error: %s\n", error.what());
    std::abort();
  }
  return 0;
}

}  // namespace rehearsal::fuzz
