// LD_PRELOAD=libslow_files.so SLOW_FILES_MS=20 PROGRAM: opening a picture takes so many milliseconds longer, as on a file system that is
// far away.
#include <dlfcn.h>
#include <fcntl.h>

#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace {

using Open = int (*)(const char*, int, ...);

int slowly(const char* name, const char* path, int flags, mode_t mode) {
  static const char* const wait = std::getenv("SLOW_FILES_MS");
  if (wait != nullptr && std::string_view(path).ends_with(".jpg")) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(wait)));
  return reinterpret_cast<Open>(dlsym(RTLD_NEXT, name))(path, flags, mode);
}

mode_t mode_in(std::va_list words, int flags) { return (flags & O_CREAT) != 0 ? va_arg(words, mode_t) : 0; }

}  // namespace

// The C library's own names for parameters begin with underscores.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" __attribute__((visibility("default"))) int open(const char* path, int flags, ...) {
  std::va_list words;
  va_start(words, flags);
  const auto mode = mode_in(words, flags);
  va_end(words);
  return slowly("open", path, flags, mode);
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" __attribute__((visibility("default"))) int open64(const char* path, int flags, ...) {
  std::va_list words;
  va_start(words, flags);
  const auto mode = mode_in(words, flags);
  va_end(words);
  return slowly("open64", path, flags, mode);
}
