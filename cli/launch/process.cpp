#include "cli/launch/process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.hpp"
#include "cli/terminal.hpp"

namespace rehearsal::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

int status_of(int code) { return WIFEXITED(code) ? WEXITSTATUS(code) : kKilled + WTERMSIG(code); }

/// Neither ended nor waiting to be reaped: the state stands behind the name, which is in parentheses and may hold any letter.
bool runs(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

/// Whether any process runs that one of its threads has started.
bool has_children(pid_t process) {
  std::error_code gone;
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;)
      if (runs(child)) return true;
  }
  return false;
}

/// Says when a process that had children has been without any for too long.
class Bereft {
 public:
  explicit Bereft(pid_t process) : process_(process) {}

  [[nodiscard]] bool for_too_long() {
    constexpr auto kEnough = std::chrono::seconds(5);
    const auto now = Clock::now();
    if (now < next_look_) return false;
    next_look_ = now + std::chrono::milliseconds(200);
    if (has_children(process_)) {
      had_ = true;
      latest_ = now;
    }
    return had_ && now - latest_ > kEnough;
  }

 private:
  pid_t process_;
  bool had_ = false;
  Clock::time_point latest_, next_look_;
};

/// In the child: out of reach of the terminal's Ctrl-C, which the parent hears and passes on; ended when the parent is.
void become_apart() {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = open("/dev/null", O_RDONLY);  // who reads from the terminal behind its back is stopped
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, SIG_DFL);
}

}  // namespace

pid_t start_process(const std::vector<std::string>& words) {
  const pid_t child = fork();
  if (child < 0) throw EnvironmentFailure(std::string("no process could be started: ") + std::strerror(errno));
  if (child > 0) return child;
  become_apart();
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kNotFound);
}

ProcessEnd wait_for_process(pid_t process) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  int code = 0;
  bool told = false, hung = false;
  for (Bereft bereft(process); waitpid(process, &code, WNOHANG) == 0; std::this_thread::sleep_for(kPause)) {
    if (!hung && bereft.for_too_long()) {
      hung = true;
      ::kill(process, SIGKILL);
    }
    if (told || !interrupted()) continue;
    ::kill(process, SIGUSR1);
    told = true;
  }
  return {status_of(code), hung};
}

}  // namespace rehearsal::cli
