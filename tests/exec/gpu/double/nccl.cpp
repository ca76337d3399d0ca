// The calls of NCCL that the backend makes, between processes of one machine: work of a stream that begins when every rank's stream has
// come to it. A collective that ranks ask for differently is a fault. NVIDIA, "NCCL documentation", API and usage.
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exec/comm/communicator.hpp"
#include "tests/exec/gpu/double/elements.hpp"
#include "tests/exec/gpu/double/machine.hpp"
#include "tests/exec/gpu/double/mailbox.hpp"

using namespace rehearsal::exec::gpu_double;
using rehearsal::DType;

struct ncclComm {
  Mailbox box;
  int rank = 0, ranks = 1;
  bool leaving = false;
  std::int64_t collectives = 0;                          ///< asked for
  std::map<std::pair<int, int>, std::int64_t> messages;  ///< the same, from one rank to another
  std::vector<std::string> said;                         ///< what the last work left for others, who have it when they come to the next
};

namespace {

ncclResult_t begin(const char* call) {
  const int error = machine().begin(call);
  return error == 0 ? ncclSuccess : error < ncclNumResults ? static_cast<ncclResult_t>(error) : ncclUnhandledCudaError;
}

struct TypeOf {
  ncclDataType_t nccl;
  DType ours;
};
constexpr TypeOf kTypes[] = {{ncclFloat32, DType::F32}, {ncclFloat64, DType::F64}, {ncclFloat16, DType::F16}, {ncclBfloat16, DType::BF16},
                             {ncclInt8, DType::I8},     {ncclUint8, DType::U8},    {ncclInt32, DType::I32},   {ncclInt64, DType::I64}};
DType type_of(ncclDataType_t type) {
  for (const auto& row : kTypes)
    if (row.nccl == type) return row.ours;
  std::abort();
}

template <class T>
void combine_as(ncclRedOp_t reduction, void* own, const void* other, std::size_t i) {
  auto& a = static_cast<T*>(own)[i];
  const auto b = static_cast<const T*>(other)[i];
  a = reduction == ncclSum ? a + b : reduction == ncclMax ? std::max(a, b) : std::min(a, b);
}

void combine(DType type, ncclRedOp_t reduction, void* own, const void* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (type == DType::I32) combine_as<std::int32_t>(reduction, own, other, i);
    if (type == DType::I64) combine_as<std::int64_t>(reduction, own, other, i);
    if (!rehearsal::is_float(type)) continue;
    const auto at = static_cast<std::int64_t>(i);
    double a = element(type, own, at), b = element(type, other, at);
    combine_as<double>(reduction, &a, &b, 0);
    set_element(type, own, at, a);
  }
}

/// A call, and what it does once everybody's data is there.
struct Asked {
  const char* call;
  const void* from;
  void* to;
  std::size_t count;  ///< as the call was given it
  ncclDataType_t type;
  int root = -1;  ///< or the other rank of a message
  ncclRedOp_t reduction = ncclSum;
  std::size_t sent = 0, received = 0;  ///< elements that this rank gives and gets
  std::int64_t number = 0;

  [[nodiscard]] std::size_t bytes(std::size_t elements) const { return elements * rehearsal::size_of(type_of(type)); }
  [[nodiscard]] bool sends() const { return std::strcmp(call, "ncclSend") == 0; }
  [[nodiscard]] bool receives() const { return std::strcmp(call, "ncclRecv") == 0; }
  [[nodiscard]] bool is_message() const { return sends() || receives(); }
  /// Ranks that ask for the same say the same.
  [[nodiscard]] std::string header() const {
    const std::string what = is_message() ? "a message" : call;
    return what + " " + std::to_string(count) + " " + std::to_string(type) + " " +
           (is_message() ? "" : std::to_string(root) + " " + std::to_string(reduction)) + "\n";
  }
  [[nodiscard]] std::string name(int from_rank, int to_rank) const {
    if (!is_message()) return "c" + std::to_string(number) + "." + std::to_string(from_rank);
    return "m" + std::to_string(number) + "." + std::to_string(from_rank) + "." + std::to_string(to_rank);
  }
};

std::string said_by(const ncclComm& comm, const Asked& asked, int rank) {
  const auto all = comm.box.get(asked.is_message() ? asked.name(rank, comm.rank) : asked.name(rank, 0));
  const auto header = asked.header();
  if (!all.starts_with(header)) {
    machine().add_fault("rank " + std::to_string(rank) + " asks for " + all.substr(0, all.find('\n')) + " where rank " +
                        std::to_string(comm.rank) + " asks for " + header.substr(0, header.size() - 1));
    return std::string(std::max(asked.bytes(asked.received), asked.bytes(asked.sent)) * static_cast<std::size_t>(comm.ranks), '\0');
  }
  return all.substr(header.size());
}

void offer(ncclComm& comm, const Asked& asked) {
  if (asked.receives()) return;
  const auto name = asked.is_message() ? asked.name(comm.rank, asked.root) : asked.name(comm.rank, 0);
  comm.box.put(name, asked.header() + std::string(static_cast<const char*>(asked.from), asked.bytes(asked.sent)));
  if (!asked.is_message()) comm.said.push_back(name);
}

bool is_ready(const ncclComm& comm, const Asked& asked) {
  if (asked.sends()) return true;
  if (asked.receives()) return comm.box.has(asked.name(asked.root, comm.rank));
  for (int rank = 0; rank < comm.ranks; ++rank)
    if (!comm.box.has(asked.name(rank, 0))) return false;
  return true;
}

void finish(const ncclComm& comm, const Asked& asked) {
  if (asked.received == 0) return;
  const auto bytes = asked.bytes(asked.received);
  const std::string call = asked.call;
  if (call == "ncclAllGather") {
    for (int rank = 0; rank < comm.ranks; ++rank)
      std::memcpy(static_cast<char*>(asked.to) + asked.bytes(asked.count) * static_cast<std::size_t>(rank),
                  said_by(comm, asked, rank).data(), asked.bytes(asked.count));
  } else if (asked.receives() || call == "ncclBroadcast") {
    const auto said = said_by(comm, asked, asked.root);
    std::memcpy(asked.to, said.data(), bytes);
    if (asked.receives()) comm.box.remove(asked.name(asked.root, comm.rank));
  } else {
    const auto first = call == "ncclReduceScatter" ? bytes * static_cast<std::size_t>(comm.rank) : 0;
    auto sum = said_by(comm, asked, 0).substr(first, bytes);
    for (int rank = 1; rank < comm.ranks; ++rank)
      combine(type_of(asked.type), asked.reduction, sum.data(), said_by(comm, asked, rank).data() + first, asked.received);
    std::memcpy(asked.to, sum.data(), bytes);
  }
}

/// Calls on one communicator and stream that were made together.
struct Together {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Asked> calls;
};
int depth = 0;
std::vector<Together> open_calls;

void ask(Together all) {
  std::vector<Touch> touches;
  for (auto& asked : all.calls) {
    auto& comm = *all.comm;
    const int from = asked.sends() ? comm.rank : asked.root, to = asked.sends() ? asked.root : comm.rank;
    asked.number = asked.is_message() ? comm.messages[{from, to}]++ : comm.collectives++;
    touches.push_back({asked.from, asked.bytes(asked.sent), false});
    touches.push_back({asked.to, asked.bytes(asked.received), true});
  }
  const auto shared = std::make_shared<Together>(std::move(all));
  Work work{"a collective of GPUs", std::move(touches), {}};
  const auto before = std::make_shared<std::vector<std::string>>();
  work.offer = [shared, before] {
    *before = std::exchange(shared->comm->said, {});
    for (const auto& asked : shared->calls) offer(*shared->comm, asked);
  };
  work.ready = [shared] { return std::ranges::all_of(shared->calls, [&](const Asked& asked) { return is_ready(*shared->comm, asked); }); };
  work.run = [shared, before] {
    for (const auto& asked : shared->calls) finish(*shared->comm, asked);
    // Whoever offers this work has done the one before. Messages say so of two ranks alone.
    const bool of_all = std::ranges::none_of(shared->calls, &Asked::is_message);
    for (const auto& name : *before) of_all ? shared->comm->box.remove(name) : shared->comm->said.push_back(name);
  };
  machine().ask(reinterpret_cast<Stream*>(shared->stream), std::move(work));
}

ncclResult_t add(const Asked& asked, ncclComm_t comm, cudaStream_t stream) {
  if (const auto error = begin(asked.call); error != ncclSuccess) return error;
  if (open_calls.empty() || open_calls.back().comm != comm || open_calls.back().stream != stream) open_calls.push_back({comm, stream, {}});
  open_calls.back().calls.push_back(asked);
  if (depth > 0) return ncclSuccess;
  for (auto& all : std::exchange(open_calls, {})) ask(std::move(all));
  return ncclInProgress;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t error) {
  return error == ncclRemoteError          ? "remote process exited or there was a network error"
         : error == ncclSystemError        ? "unhandled system error"
         : error == ncclUnhandledCudaError ? "unhandled cuda error"
                                           : "internal error";
}
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::strncpy(id->internal, Mailbox::make_folder().c_str(), sizeof id->internal - 1);
  return begin("ncclGetUniqueId");
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;
  *comm = new ncclComm{Mailbox(id.internal), rank, ranks, false, 0, {}, {}};
  (*comm)->box.put("here." + std::to_string(rank), "");
  const auto error = begin("ncclCommInitRankConfig");
  return error == ncclSuccess ? ncclInProgress : error;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = begin("ncclCommGetAsyncError");
  for (int rank = 0; rank < comm->ranks && *state == ncclSuccess; ++rank)
    if (!comm->box.has((comm->leaving ? "gone." : "here.") + std::to_string(rank))) *state = ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->leaving = true;
  comm->box.put("gone." + std::to_string(comm->rank), "");
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  comm->box.put("left." + std::to_string(comm->rank), "");
  const auto has_left = [&](int rank) { return comm->box.has("left." + std::to_string(rank)); };
  const double since = rehearsal::exec::now_seconds();
  for (int rank = 1; comm->rank == 0 && rank < comm->ranks && rehearsal::exec::now_seconds() - since < 5;) rank += has_left(rank) ? 1 : 0;
  if (comm->rank == 0) comm->box.remove_all();
  delete comm;
  return begin("ncclCommDestroy");
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->box.remove_all();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  for (auto& all : std::exchange(open_calls, {})) ask(std::move(all));
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t comm,
                           cudaStream_t stream) {
  return add({"ncclAllReduce", from, to, count, type, -1, reduction, count, count}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t comm,
                               cudaStream_t stream) {
  return add({"ncclReduceScatter", from, to, count, type, -1, reduction, count * static_cast<std::size_t>(comm->ranks), count}, comm,
             stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return add({"ncclAllGather", from, to, count, type, -1, ncclSum, count, count * static_cast<std::size_t>(comm->ranks)}, comm, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return add({"ncclReduce", from, to, count, type, root, reduction, count, comm->rank == root ? count : 0}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return add({"ncclBroadcast", from, to, count, type, root, ncclSum, comm->rank == root ? count : 0, comm->rank == root ? 0 : count}, comm,
             stream);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add({"ncclSend", from, nullptr, count, type, peer, ncclSum, count, 0}, comm, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add({"ncclRecv", nullptr, to, count, type, peer, ncclSum, 0, count}, comm, stream);
}

}  // extern "C"
