#include "exec/comm/remote_memory.hpp"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>

#include "exec/comm/mpi_error.hpp"

namespace rehearsal::exec {
namespace {

MPI_Datatype numbers_of(DType dtype) {
  ensure(dtype == DType::F32 || dtype == DType::F64, "numbers in a window are f32 or f64");
  return dtype == DType::F32 ? MPI_FLOAT : MPI_DOUBLE;
}

constexpr std::int64_t kMostNumbers = std::numeric_limits<std::int32_t>::max();

/// In calls that MPI can count.
template <class Call>
void in_parts(std::int64_t count, const Call& call) {
  for (std::int64_t begin = 0; begin < count; begin += kMostNumbers) call(begin, static_cast<int>(std::min(kMostNumbers, count - begin)));
}

}  // namespace

struct RemoteMemory::Mpi {
  MPI_Comm ranks = MPI_COMM_NULL;
  MPI_Win window = MPI_WIN_NULL;
  std::byte* memory = nullptr;
};

RemoteMemory::RemoteMemory(Communicator& world, std::size_t bytes)
    : world_(world), mpi_(std::make_unique<Mpi>()), exceptions_at_start_(std::uncaught_exceptions()) {
  constexpr const char* kWhat = "making memory that ranks share";
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &mpi_->ranks), kWhat);
  MPI_Comm_set_errhandler(mpi_->ranks, MPI_ERRORS_RETURN);
  const auto code =
      MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, mpi_->ranks, static_cast<void*>(&mpi_->memory), &mpi_->window);
  int reason = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &reason);
  if (reason == MPI_ERR_WIN)
    throw EnvironmentFailure(
        "this MPI has nothing by which these ranks could write into each other's memory, as one-sided collectives and staleness do; with "
        "Open MPI, `ompi_info | grep osc` lists what there is and OMPI_MCA_osc chooses (over TCP it is pt2pt)");
  check_mpi(code, kWhat);
  MPI_Win_set_errhandler(mpi_->window, MPI_ERRORS_RETURN);
  int* model = nullptr;
  int known = 0;
  check_mpi(MPI_Win_get_attr(mpi_->window, MPI_WIN_MODEL, static_cast<void*>(&model), &known), kWhat);
  if (known == 0 || *model != MPI_WIN_UNIFIED)
    throw EnvironmentFailure(
        "this MPI does not show a rank what others put into its memory (MPI_WIN_UNIFIED), which one-sided collectives and staleness "
        "need; use allreduce=auto and staleness=none");
  std::fill_n(mpi_->memory, bytes, std::byte{0});
  check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, mpi_->window), kWhat);
  see();
}

/// A rank that leaves by an exception waits for nobody; MPI ends with the process.
RemoteMemory::~RemoteMemory() {
  if (std::uncaught_exceptions() > exceptions_at_start_) return;
  try {
    world_.barrier("the end of memory that ranks share");
  } catch (const Error&) {
    return;
  }
  MPI_Win_unlock_all(mpi_->window);
  MPI_Win_free(&mpi_->window);
  MPI_Comm_free(&mpi_->ranks);
}

std::byte* RemoteMemory::memory() const { return mpi_->memory; }

void RemoteMemory::put(Address place, const void* data, std::size_t bytes, std::string_view what) {
  const auto count = static_cast<int>(bytes);
  check_mpi(MPI_Put(data, count, MPI_BYTE, place.rank, place.at, count, MPI_BYTE, mpi_->window), what);
  check_mpi(MPI_Win_flush(place.rank, mpi_->window), what);
}

void RemoteMemory::add(Address place, const void* numbers, std::int64_t count, DType dtype, std::string_view what) {
  const auto type = numbers_of(dtype);
  const auto each = static_cast<std::int64_t>(size_of(dtype));
  in_parts(count, [&](std::int64_t begin, int n) {
    check_mpi(MPI_Accumulate(static_cast<const std::byte*>(numbers) + begin * each, n, type, place.rank, place.at + begin * each, n, type,
                             MPI_SUM, mpi_->window),
              what);
  });
}

void RemoteMemory::read(Address place, void* numbers, std::int64_t count, DType dtype, std::string_view what) {
  const auto type = numbers_of(dtype);
  const auto each = static_cast<std::int64_t>(size_of(dtype));
  in_parts(count, [&](std::int64_t begin, int n) {
    check_mpi(MPI_Get_accumulate(nullptr, 0, type, static_cast<std::byte*>(numbers) + begin * each, n, type, place.rank,
                                 place.at + begin * each, n, type, MPI_NO_OP, mpi_->window),
              what);
  });
}

void RemoteMemory::complete(std::string_view what) { check_mpi(MPI_Win_flush_all(mpi_->window), what); }

RemoteMemory::Counter RemoteMemory::counter(std::int64_t at) const {
  return std::atomic_ref(*reinterpret_cast<Counter*>(mpi_->memory + at)).load(std::memory_order_acquire);
}

void RemoteMemory::set_counter(Address place, Counter value, std::string_view what) {
  check_mpi(MPI_Accumulate(&value, 1, MPI_UINT64_T, place.rank, place.at, 1, MPI_UINT64_T, MPI_REPLACE, mpi_->window), what);
  check_mpi(MPI_Win_flush_local(place.rank, mpi_->window), what);  // it will come, and nobody here waits for that
}

void RemoteMemory::see() { check_mpi(MPI_Win_sync(mpi_->window), "reading what was put"); }

void RemoteMemory::look() {
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi_->ranks, &found, MPI_STATUS_IGNORE);
}

}  // namespace rehearsal::exec
