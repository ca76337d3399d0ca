// What the calls mean follows NVIDIA, "NCCL documentation": communicators that do not block, groups of calls, operations in place.
#include "exec/kernels/cuda/nccl_collectives.hpp"

#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <vector>

#include "base/error.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/cuda/library_calls.hpp"
#include "exec/kernels/cuda/gpu.hpp"

namespace rehearsal::exec::cuda {
namespace {

using plan::CollectiveKind;

struct TypeRow {
  DType ours;
  ncclDataType_t theirs;
  bool reduces;  ///< numbers that NCCL can add and compare
};
constexpr std::array kTypes{
    TypeRow{DType::F32, ncclFloat32, true},   TypeRow{DType::F64, ncclFloat64, true}, TypeRow{DType::F16, ncclFloat16, true},
    TypeRow{DType::BF16, ncclBfloat16, true}, TypeRow{DType::I8, ncclInt8, true},     TypeRow{DType::I32, ncclInt32, true},
    TypeRow{DType::I64, ncclInt64, true},     TypeRow{DType::U8, ncclUint8, true},    TypeRow{DType::U32, ncclUint32, true},
    TypeRow{DType::U64, ncclUint64, true},    TypeRow{DType::Bool, ncclUint8, false}};
const TypeRow* type_row(DType type) {
  const auto* row = std::ranges::find(kTypes, type, &TypeRow::ours);
  return row == kTypes.end() ? nullptr : row;
}

struct ReductionRow {
  graph::LabelKind ours;
  ncclRedOp_t theirs;
};
constexpr std::array kReductions{ReductionRow{graph::LabelKind::Sum, ncclSum}, ReductionRow{graph::LabelKind::Max, ncclMax},
                                 ReductionRow{graph::LabelKind::Min, ncclMin}};
const ReductionRow* reduction_row(graph::LabelKind reduction) {
  const auto* row = std::ranges::find(kReductions, reduction, &ReductionRow::ours);
  return row == kReductions.end() ? nullptr : row;
}

void check(ncclResult_t status, const char* doing) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw EnvironmentFailure(std::string("NCCL: ") + doing + ": " + ncclGetErrorString(status));
}

/// One collective as NCCL is asked for it.
struct Call {
  const DeviceCollective& what;
  ncclComm_t comm;
  cudaStream_t stream;

  [[nodiscard]] std::byte* at(std::int64_t element) const {
    return static_cast<std::byte*>(what.data) + element * static_cast<std::int64_t>(size_of(what.dtype));
  }
  [[nodiscard]] ncclDataType_t type() const { return type_row(what.dtype)->theirs; }
  [[nodiscard]] ncclRedOp_t reduction() const { return reduction_row(what.reduction)->theirs; }
  [[nodiscard]] int ranks() const { return static_cast<int>(what.parts.size()) - 1; }
  [[nodiscard]] std::int64_t begin(int rank) const { return what.parts[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::size_t size(int rank) const { return static_cast<std::size_t>(begin(rank + 1) - begin(rank)); }
  [[nodiscard]] bool parts_are_equal() const {
    for (int rank = 1; rank < ranks(); ++rank)
      if (size(rank) != size(0)) return false;
    return true;
  }
};

/// Calls that are made together, as one.
template <class Make>
void together(const Make& make) {
  check(ncclGroupStart(), "beginning a group of calls");
  make();
  check(ncclGroupEnd(), "ending a group of calls");
}

int rank_in(ncclComm_t comm) {
  int rank = 0;
  check(ncclCommUserRank(comm, &rank), "asking for a rank");
  return rank;
}

void all_reduce(const Call& c) {
  check(ncclAllReduce(c.what.data, c.what.data, static_cast<std::size_t>(c.what.count), c.type(), c.reduction(), c.comm, c.stream),
        "an all-reduce");
}

/// NCCL knows parts of one size; with others every part is reduced to the rank that keeps it.
void reduce_scatter(const Call& c) {
  if (c.parts_are_equal())
    return check(ncclReduceScatter(c.what.data, c.at(c.begin(rank_in(c.comm))), c.size(0), c.type(), c.reduction(), c.comm, c.stream),
                 "a reduce-scatter");
  together([&] {
    for (int rank = 0; rank < c.ranks(); ++rank)
      if (c.size(rank) > 0)
        check(ncclReduce(c.at(c.begin(rank)), c.at(c.begin(rank)), c.size(rank), c.type(), c.reduction(), rank, c.comm, c.stream),
              "a reduction of one part");
  });
}

void all_gather(const Call& c) {
  if (c.parts_are_equal())
    return check(ncclAllGather(c.at(c.begin(rank_in(c.comm))), c.what.data, c.size(0), c.type(), c.comm, c.stream), "an all-gather");
  together([&] {
    for (int rank = 0; rank < c.ranks(); ++rank)
      if (c.size(rank) > 0)
        check(ncclBroadcast(c.at(c.begin(rank)), c.at(c.begin(rank)), c.size(rank), c.type(), rank, c.comm, c.stream),
              "a broadcast of one part");
  });
}

/// What is sent and what arrives lie beside each other in the vector: all messages go at once.
void exchange(const Call& c) {
  together([&] {
    for (const auto& m : c.what.messages) {
      if (m.send_to >= 0)
        check(ncclSend(c.at(m.send_first), static_cast<std::size_t>(m.send_count), c.type(), m.send_to, c.comm, c.stream), "sending");
      if (m.receive_from >= 0)
        check(ncclRecv(c.at(m.receive_first), static_cast<std::size_t>(m.receive_count), c.type(), m.receive_from, c.comm, c.stream),
              "receiving");
    }
  });
}

struct KindRow {
  CollectiveKind kind;
  void (*make)(const Call&);
  bool reduces;
};
constexpr std::array kKinds{
    KindRow{CollectiveKind::AllReduce, all_reduce, true},  KindRow{CollectiveKind::ReduceScatter, reduce_scatter, true},
    KindRow{CollectiveKind::AllGather, all_gather, false}, KindRow{CollectiveKind::AllToAll, exchange, false},
    KindRow{CollectiveKind::Halo, exchange, false},        KindRow{CollectiveKind::Shift, exchange, false}};
const KindRow* kind_row(CollectiveKind kind) {
  const auto* row = std::ranges::find(kKinds, kind, &KindRow::kind);
  return row == kKinds.end() ? nullptr : row;
}

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(Gpu& gpu, Meeting meeting) : gpu_(gpu), meeting_(std::move(meeting)) {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream for collectives");
  }

  /// Of a rank that fails, what is under way would never end.
  ~NcclCollectives() override {
    const bool fails =
        std::uncaught_exceptions() > exceptions_at_start_ || std::ranges::any_of(under_way(), [](const Begun& b) { return !b.done; });
    for (auto* comm : groups_) fails ? (void)ncclCommAbort(comm) : leave(comm);
    for (const auto& begun : begun_)
      for (auto* event : {begun.asked, begun.begin, begun.end}) (void)cudaEventDestroy(event);
    (void)cudaStreamDestroy(stream_);
  }

  [[nodiscard]] std::string name() const override {
    int version = 0;
    check(ncclGetVersion(&version), "asking for the version");
    return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  }

  [[nodiscard]] bool does(CollectiveKind kind, DType dtype, graph::LabelKind reduction) const override {
    const auto* type = type_row(dtype);
    const auto* row = kind_row(kind);
    return type != nullptr && row != nullptr && (!row->reduces || (type->reduces && reduction_row(reduction) != nullptr));
  }

  [[nodiscard]] int join(std::span<const int> group, int me) override {
    ncclUniqueId id{};
    if (me == 0) check(ncclGetUniqueId(&id), "naming a group of GPUs");
    const auto told = meeting_.tell(group, std::string(id.internal, sizeof id.internal));
    ensure(told.size() == sizeof id.internal, "the first rank of a group of GPUs tells its name");
    std::memcpy(id.internal, told.data(), sizeof id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    check(ncclCommInitRankConfig(&comm, static_cast<int>(group.size()), id, me, &config), "joining a group of GPUs");
    groups_.push_back(comm);
    settle(comm, "joining a group of GPUs");
    return static_cast<int>(groups_.size()) - 1;
  }

  [[nodiscard]] std::uint32_t start(const DeviceCollective& what) override {
    auto& begun = add();
    auto* comm = groups_[static_cast<std::size_t>(what.group)];
    begun.comm = comm;
    cuda::check(cudaEventRecord(begun.asked, gpu_.cuda_stream()), "marking a moment");
    cuda::check(cudaStreamWaitEvent(stream_, begun.asked, 0), "putting a collective in order");
    cuda::check(cudaEventRecord(begun.begin, stream_), "marking a moment");
    kind_row(what.kind)->make({what, comm, stream_});
    settle(comm, "starting a collective");
    cuda::check(cudaEventRecord(begun.end, stream_), "marking a moment");
    return used_ - 1;
  }

  [[nodiscard]] bool done(std::uint32_t number) override {
    auto& begun = begun_[number];
    if (begun.done) return true;
    const auto status = cudaEventQuery(begun.end);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // which remembers even this
      (void)state_of(begun.comm, "a collective");
      return false;
    }
    cuda::check(status, "a collective");
    return begun.done = true;  // the host knows: what it asks for from now on comes behind
  }

  [[nodiscard]] Times times(std::uint32_t number) override {
    return {gpu_.seconds_of(begun_[number].begin), gpu_.seconds_of(begun_[number].end)};
  }

  void forget() override { used_ = 0; }

 private:
  struct Begun {
    cudaEvent_t asked = nullptr, begin = nullptr, end = nullptr;
    ncclComm_t comm = nullptr;
    bool done = false;
  };

  [[nodiscard]] std::span<const Begun> under_way() const { return std::span(begun_).first(used_); }

  Begun& add() {
    if (used_ == begun_.size()) {
      auto& fresh = begun_.emplace_back();
      for (auto* event : {&fresh.asked, &fresh.begin, &fresh.end}) cuda::check(cudaEventCreate(event), "making an event");
    }
    auto& begun = begun_[used_++];
    begun.done = false;
    return begun;
  }

  [[nodiscard]] static ncclResult_t state_of(ncclComm_t comm, const char* doing) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &state), doing);
    check(state, doing);
    return state;
  }

  static void leave(ncclComm_t comm) noexcept {
    constexpr double kLongest = 5;  // seconds: the other ranks leave, too
    auto state = ncclCommFinalize(comm);
    for (const double since = now_seconds(); state == ncclInProgress && now_seconds() - since < kLongest;)
      if (const auto status = ncclCommGetAsyncError(comm, &state); status != ncclSuccess) state = status;
    (void)(state == ncclSuccess ? ncclCommDestroy(comm) : ncclCommAbort(comm));
  }

  /// A call has returned before it was made, so that nobody waits in it for ever.
  void settle(ncclComm_t comm, const char* doing) {
    const double since = now_seconds();
    while (state_of(comm, doing) == ncclInProgress) meeting_.meanwhile(since);
  }

  Gpu& gpu_;
  Meeting meeting_;
  cudaStream_t stream_ = nullptr;
  std::vector<ncclComm_t> groups_;
  std::vector<Begun> begun_;  ///< their events are used again
  std::uint32_t used_ = 0;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<DeviceCollectives> make_nccl_collectives(Gpu& gpu, const Meeting& meeting) {
  return std::make_unique<NcclCollectives>(gpu, meeting);
}

}  // namespace rehearsal::exec::cuda
