#include "base/atomic_file.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;

namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("rehearsal_atomic_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file(const char* name) const { return (path / name).string(); }
  [[nodiscard]] auto entries() const {
    return std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator());
  }
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// No file may grow beyond `bytes` while this lives: the kernel then fails writes as it does on a full disk.
struct FullDisk {
  rlimit before{};
  void (*signal_before)(int);
  explicit FullDisk(rlim_t bytes) : signal_before(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, signal_before);
  }
};

}  // namespace

TEST_CASE("a file is written as a whole, over what was there") {
  const Folder folder;
  const std::string bytes("a\0b\n", 4);
  write_file_atomically(folder.file("x"), "a longer text that was there before");
  write_file_atomically(folder.file("x"), bytes);
  CHECK(content(folder.file("x")) == bytes);
  CHECK(folder.entries() == 1);
}

TEST_CASE("a disk that fills up leaves the old file and nothing else") {
  const Folder folder;
  write_file_atomically(folder.file("x"), "old");
  {
    const FullDisk full(1000);
    CHECK_THROWS_AS(write_file_atomically(folder.file("x"), std::string(100'000, 'n')), EnvironmentFailure);
    CHECK_THROWS_WITH(write_file_atomically(folder.file("x"), std::string(100'000, 'n')), contains(folder.file("x")));
  }
  CHECK(content(folder.file("x")) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a link stays, and what it leads to is written") {
  const Folder folder;
  write_file_atomically(folder.file("x"), "old");
  std::filesystem::create_symlink("x", folder.file("link"));
  write_file_atomically(folder.file("link"), "new");
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(content(folder.file("x")) == "new");
  std::filesystem::create_symlink("y", folder.file("to nothing"));
  write_file_atomically(folder.file("to nothing"), "first");
  CHECK(content(folder.file("y")) == "first");
  CHECK(folder.entries() == 4);
}

TEST_CASE("a link that leads nowhere is refused before anything long has been done") {
  const Folder folder;
  std::filesystem::create_symlink("no-such-folder/x", folder.file("gone"));
  CHECK_THROWS_WITH(require_place(folder.file("gone")), contains("gone") && contains("no-such-folder does not exist"));
  std::filesystem::create_symlink("round", folder.file("round"));
  CHECK_THROWS_WITH(require_place(folder.file("round")), contains("round") && contains("links"));
}

TEST_CASE("a pipe is written into, and stays one") {
  const Folder folder;
  const auto pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_FALSE(is_replaceable(pipe));
  std::string read;
  std::thread reader([&] { read = content(pipe); });
  write_file_atomically(pipe, "through it");
  reader.join();
  CHECK(read == "through it");
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(folder.entries() == 1);
}

TEST_CASE("devices and the standard output are no files that another may take the place of") {
  for (const auto* path : {"/dev/null", "/dev/full", "/dev/stdout", "/proc/self/fd/1"}) CHECK_FALSE(is_replaceable(path));
  CHECK(is_replaceable("/dev/shm/no-such-file"));
  CHECK_THROWS_AS(write_file_atomically("/proc/self/cmdline", "x"), EnvironmentFailure);  // not even root may
}

TEST_CASE("a folder in the way, or none, is refused by name") {
  const Folder folder;
  CHECK_THROWS_AS(write_file_atomically(folder.path.string(), "x"), BadInput);
  CHECK_THROWS_WITH(write_file_atomically(folder.file("nowhere/plan.json"), "x"),
                    contains("nowhere/plan.json") && contains("does not exist"));
  CHECK_THROWS_AS(write_file_atomically("", "x"), BadInput);
}
