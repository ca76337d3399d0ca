#pragma once
// Memory of a rank that other ranks write and read: MPI's windows with passive targets.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/dtype.hpp"
#include "exec/comm/communicator.hpp"

namespace rehearsal::exec {

/// A put ends when what it did can be seen by the other rank; counters come soon, additions and readings with complete(). Throws
/// EnvironmentFailure when MPI fails; `what` was being done.
class RemoteMemory {
 public:
  using Counter = std::uint64_t;
  static constexpr std::size_t kLine = 64;  ///< of the cache: what different ranks write begins at one
  /// Where in a rank's memory, in bytes from its begin.
  struct Address {
    int rank = 0;
    std::int64_t at = 0;
  };
  /// All ranks together, as is the end; each has so many bytes, all zero once every rank has left the constructor and met the others.
  /// Throws EnvironmentFailure where MPI does not show a rank what others put.
  RemoteMemory(Communicator&, std::size_t bytes);
  ~RemoteMemory();
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  [[nodiscard]] std::byte* memory() const;
  void put(Address, const void* data, std::size_t bytes, std::string_view what);
  /// Adds numbers of f32 or f64, each at once whatever other ranks add meanwhile.
  void add(Address, const void* numbers, std::int64_t count, DType, std::string_view what);
  /// Reads them, each as it is before or behind an addition.
  void read(Address, void* numbers, std::int64_t count, DType, std::string_view what);
  /// What was added can be seen, what was read is there.
  void complete(std::string_view what);
  /// Counters of this rank's memory, which others set.
  [[nodiscard]] Counter counter(std::int64_t at) const;
  void set_counter(Address, Counter, std::string_view what);
  /// Before this rank reads what others have put: their counters have said so.
  void see();
  /// For transports that need the receiver to look.
  void look();

 private:
  struct Mpi;
  Communicator& world_;
  std::unique_ptr<Mpi> mpi_;
  int exceptions_at_start_;
};

}  // namespace rehearsal::exec
