#pragma once
// Threads that prepare samples before they are asked for.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "exec/data/sample_reader.hpp"

namespace rehearsal::exec {

/// Samples of a training that follow each other, of one input.
struct Stretch {
  std::size_t wanted = 0;
  std::int64_t first = 0, count = 0;
  std::optional<plan::Region> part;
  [[nodiscard]] const plan::Region* region() const { return part ? &*part : nullptr; }
  friend bool operator==(const Stretch&, const Stretch&) = default;
};

/// A stretch under way, in pieces of some samples.
struct Load {
  Stretch stretch;
  std::byte* out = nullptr;
  std::unique_ptr<std::byte[]> own;  ///< where `out` is the load's
  std::int64_t bytes = 0;
  std::int64_t samples_of_piece = 1, pieces = 0;
  std::atomic<std::int64_t> begun = 0, done = 0;
  std::exception_ptr failure;  ///< of the first piece that failed; set before it is done
};

class ReadAhead {
 public:
  /// `threads` 0: what is begun is done when it is waited for.
  ReadAhead(std::shared_ptr<const SampleReader> reader, int threads);
  /// Threads that wait for a file that never answers are left alone when an error unwinds.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(threads_.size()); }
  /// `out` nullptr: memory of the load's own.
  [[nodiscard]] std::shared_ptr<Load> make(const Stretch&, std::byte* out);
  /// Loads are worked on in the order in which they begin.
  void begin(const std::shared_ptr<Load>&);
  /// Works on it, too, and waits for the rest. Throws what a sample's reading threw.
  void finish(Load&);
  /// Its memory serves another load.
  void give_back(Load&);

 private:
  struct Shared {
    std::shared_ptr<const SampleReader> reader;
    std::mutex mutex;
    std::condition_variable work, done;
    std::deque<std::shared_ptr<Load>> queue;
    bool end = false;
  };
  static void serve(const std::shared_ptr<Shared>&);
  static bool do_piece(Shared&, Load&);

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
  std::vector<std::pair<std::int64_t, std::unique_ptr<std::byte[]>>> spare_;
};

}  // namespace rehearsal::exec
