#pragma once
// Runs commands as a user would, and keeps what comes of them.

#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

/// A folder that is gone with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    auto pattern = (std::filesystem::temp_directory_path() / "rehearsal-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

struct Ended {
  int status = -1;  ///< 128 + signal when a signal ended the shell
  double seconds = 0;
  std::string out, err;
};

#ifdef __SANITIZE_ADDRESS__
inline constexpr int kLimitSeconds = 600;
#else
inline constexpr int kLimitSeconds = 240;
#endif

/// A line of the shell, ended by force after kLimitSeconds.
inline Ended run_shell(const std::string& command) {
  const TemporaryFolder folder;
  write_text(folder / "command", command + "\n");
  const auto line = "timeout -k 5 " + std::to_string(kLimitSeconds) + " sh " + (folder / "command") + " > " + (folder / "out") + " 2> " +
                    (folder / "err") + " < /dev/null";
  const auto start = std::chrono::steady_clock::now();
  const int code = std::system(line.c_str());
  Ended ended;
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ended.status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
  ended.out = text_of(folder / "out");
  ended.err = text_of(folder / "err");
  return ended;
}
