// Plays a fuzz target without libFuzzer: every file of a folder, then a fixed number of mutations of each, the same in every run.
//   fuzz_TARGET FOLDER [MUTATIONS]

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/fuzz/target.hpp"

namespace {

namespace files = std::filesystem;
using rehearsal::random_bits;

constexpr std::uint64_t kSeed = 7;

/// Numbers for one mutation.
class Draws {
 public:
  explicit Draws(std::uint64_t number) : number_(number) {}
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(random_bits(kSeed, number_, next_++) % limit); }

 private:
  std::uint64_t number_, next_ = 0;
};

/// What damages readers most: the borders of integers, in varints and in text.
constexpr std::string_view kHostile[] = {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
                                         "\xFF\xFF\xFF\xFF\x0F",
                                         "9223372036854775808",
                                         "-1",
                                         "1e999",
                                         "NaN",
                                         "../",
                                         "[[[[[[[[",
                                         "{\"",
                                         "\xC3\x28"};

std::string mutated(std::string bytes, std::uint64_t number) {
  Draws draw(number);
  if (bytes.empty()) return bytes;
  const std::size_t rounds = 1 + draw.below(4);
  for (std::size_t round = 0; round < rounds && !bytes.empty(); ++round) {
    const std::size_t at = draw.below(bytes.size()), length = 1 + draw.below(std::min<std::size_t>(64, bytes.size() - at));
    switch (draw.below(6)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(draw.below(bytes.size()), bytes.substr(at, length));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.replace(at, std::min<std::size_t>(length, 2), kHostile[draw.below(std::size(kHostile))]);
        break;
      default:
        bytes[at] = static_cast<char>(draw.below(256));
    }
  }
  return bytes;
}

void play(const std::string& bytes) { (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()); }

std::string contents(const files::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A reader that asks for more than this has believed a size that the input made up.
void bound_memory() {
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit limit{rlim_t{3} << 30, rlim_t{3} << 30};
  (void)setrlimit(RLIMIT_AS, &limit);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [MUTATIONS]\n", argv[0]);
    return 2;
  }
  bound_memory();
  const std::uint64_t mutations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  std::vector<files::path> seeds;
  for (const auto& entry : files::directory_iterator(argv[1])) seeds.push_back(entry.path());
  std::sort(seeds.begin(), seeds.end());
  std::uint64_t inputs = 0;
  for (const auto& path : seeds) {
    const std::string seed = contents(path);
    for (std::uint64_t number = 0; number <= mutations; ++number, ++inputs) {
      const std::string bytes = number == 0 ? seed : mutated(seed, number);
      std::ofstream("last_input", std::ios::binary) << bytes;  // what ended the process, should it end here
      play(bytes);
    }
  }
  files::remove("last_input");
  std::printf("%llu inputs from %zu seeds\n", static_cast<unsigned long long>(inputs), seeds.size());
  return seeds.empty() ? 1 : 0;
}
