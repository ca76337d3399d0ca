#include "exec/comm/communicator.hpp"

#include <mpi.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <thread>

#include "exec/comm/mpi_error.hpp"
#include "exec/comm/slow_messages.hpp"
#include "exec/comm/usable_cores.hpp"

namespace rehearsal::exec {
namespace {

static_assert(sizeof(MPI_Request) <= sizeof(Request::handle));

MPI_Request unpacked(const Request& request) {
  MPI_Request handle;
  std::memcpy(&handle, &request.handle, sizeof(MPI_Request));
  return handle;
}

void pack(Request& request, MPI_Request handle) { std::memcpy(&request.handle, &handle, sizeof(MPI_Request)); }

constexpr int kServiceTag = 1;
constexpr std::size_t kLargestMessage = std::numeric_limits<int>::max();

Request message(int peer, std::size_t bytes, bool receives) {
  ensure(bytes <= kLargestMessage, "a message is at most 2^31-1 bytes");
  Request request;
  request.peer = peer;
  request.bytes = bytes;
  request.receives = receives;
  request.active = true;
  return request;
}

bool tested(MPI_Request& handle, std::string_view what) {
  int finished = 0;
  check_mpi(MPI_Test(&handle, &finished, MPI_STATUS_IGNORE), what);
  return finished != 0;
}

}  // namespace

struct Communicator::Mpi {
  std::array<MPI_Comm, 3> channels{};
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Win board = MPI_WIN_NULL;
  [[nodiscard]] MPI_Comm of(Channel channel) const { return channels[static_cast<std::size_t>(channel)]; }
};

Communicator::Communicator() : mpi_(std::make_unique<Mpi>()) {
  for (auto& channel : mpi_->channels) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &channel), "making a communicator");
    MPI_Comm_set_errhandler(channel, MPI_ERRORS_RETURN);
  }
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  auto& node = mpi_->node;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "finding the ranks of this node");
  MPI_Comm_rank(node, &local_rank_);
  MPI_Comm_size(node, &local_size_);
  int lowest = rank_;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, node), "finding the ranks of this node");
  make_board();
  share_cores();
  std::vector<int> lowest_of(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, lowest_of.data(), 1, MPI_INT, MPI_COMM_WORLD), "finding the nodes");
  std::map<int, int> number_of;
  for (const int l : lowest_of) number_of.emplace(l, 0);
  int next = 0;
  for (auto& [l, number] : number_of) number = next++;
  node_of_.clear();
  for (const int l : lowest_of) node_of_.push_back(number_of.at(l));
}

/// Ranks that a launcher has bound to cores of their own share none; others share all that they may use.
void Communicator::share_cores() {
  leave_default_binding(local_size_);
  const int first = first_usable_processor(), own = usable_cores();
  std::vector<int> firsts(static_cast<std::size_t>(local_size_));
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, mpi_->node), "sharing the cores of this node");
  const bool shared = std::all_of(firsts.begin(), firsts.end(), [&](int other) { return other == first; });
  cores_ = std::max(1, shared ? own / local_size_ : std::min(own, cores_of_node() / local_size_));
}

void Communicator::make_board() {
  auto& mpi = *mpi_;
  void* own = nullptr;
  check_mpi(MPI_Win_allocate_shared(sizeof(BoardPlace), 1, MPI_INFO_NULL, mpi.node, &own, &mpi.board), "sharing memory on this node");
  new (own) BoardPlace();
  neighbours_.resize(static_cast<std::size_t>(local_size_));
  check_mpi(MPI_Allgather(&rank_, 1, MPI_INT, neighbours_.data(), 1, MPI_INT, mpi.node), "sharing memory on this node");
  for (int local = 0; local < local_size_; ++local) {
    MPI_Aint bytes = 0;
    int unit = 1;
    void* place = nullptr;
    check_mpi(MPI_Win_shared_query(mpi.board, local, &bytes, &unit, static_cast<void*>(&place)), "sharing memory on this node");
    places_.push_back(static_cast<BoardPlace*>(place));
  }
}

std::vector<Communicator::Neighbour> Communicator::neighbours() const {
  std::vector<Neighbour> all;
  for (std::size_t local = 0; local < places_.size(); ++local) all.push_back({neighbours_[local], places_[local]});
  return all;
}

std::string Communicator::described(int rank, const BoardNote& note) const {
  if (describe_) return describe_(rank, note);
  return note.doing == Doing::GettingReady ? "getting ready" : "step " + std::to_string(note.step + 1);
}

std::string Communicator::at_what(const Neighbour& neighbour) const {
  const auto notes = neighbour.place->last();
  return "rank " + std::to_string(neighbour.rank) + " (" + to_text(*neighbour.place) +
         ") was at: " + (notes.empty() ? "getting ready" : described(neighbour.rank, notes.back()));
}

void Communicator::require_neighbours() {
  constexpr double kBetweenLooks = 0.1;
  const double now = now_seconds();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  for (const auto& neighbour : neighbours()) {
    if (neighbour.rank == rank_ || neighbour.place->state() != BoardPlace::State::Ended) continue;
    const auto notes = neighbour.place->last();
    if (!notes.empty() && notes.back().doing == Doing::Leaving) continue;
    throw EnvironmentFailure("a rank was lost: " + at_what(neighbour));
  }
}

void Communicator::adopt(const StallTime& time) {
  if (!stall_is_given_) stall_seconds_ = time.seconds();
}

Communicator::~Communicator() {
  note({.doing = Doing::Leaving});
  MPI_Win_free(&mpi_->board);
  MPI_Comm_free(&mpi_->node);
  for (auto& channel : mpi_->channels) MPI_Comm_free(&channel);
}

int Communicator::nodes() const { return *std::ranges::max_element(node_of_) + 1; }

int Communicator::ranks_per_node(std::span<const int> group) const {
  std::vector<int> runs;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == 0 || node_of(group[i]) != node_of(group[i - 1])) runs.push_back(0);
    ++runs.back();
  }
  const bool even = std::ranges::all_of(runs, [&](int run) { return run == runs.front(); });
  return even && !runs.empty() ? runs.front() : 1;
}

Request Communicator::send(int peer, const void* data, std::size_t bytes, Channel channel, int tag) {
  if (!slow_ || channel == Channel::Service) return post(peer, data, bytes, channel, tag);
  Request request = message(peer, bytes, false);
  request.held = true;
  request.handle = slow_->hold({peer, data, bytes, channel, tag});
  return request;
}

void Communicator::slow_down(std::uint64_t seed, double longest_seconds) {
  slow_ = std::make_unique<SlowMessages>(seed + static_cast<std::uint64_t>(rank_), longest_seconds);
}

/// True while a message has not left.
bool Communicator::held_back(Request& request) {
  slow_->release([this](const SlowMessages::Outgoing& m) { return post(m.peer, m.data, m.bytes, m.channel, m.tag); });
  if (!request.held) return false;
  const auto* posted = slow_->posted(request.handle);
  if (posted == nullptr) return true;
  const auto number = request.handle;
  request = *posted;
  slow_->forget(number);
  return false;
}

Request Communicator::post(int peer, const void* data, std::size_t bytes, Channel channel, int tag) {
  Request request = message(peer, bytes, false);
  MPI_Request handle = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, mpi_->of(channel), &handle),
            "sending to rank " + std::to_string(peer));
  pack(request, handle);
  return request;
}

Request Communicator::receive(int peer, void* data, std::size_t bytes, Channel channel, int tag) {
  Request request = message(peer, bytes, true);
  MPI_Request handle = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, mpi_->of(channel), &handle),
            "receiving from rank " + std::to_string(peer));
  pack(request, handle);
  return request;
}

bool Communicator::done(Request& request) {
  if (!request.active) return true;
  if (slow_ && held_back(request)) return false;
  MPI_Request handle = unpacked(request);
  MPI_Status status;
  int finished = 0;
  const int code = MPI_Test(&handle, &finished, &status);
  if (code != MPI_SUCCESS) check_mpi(code, (request.receives ? "receiving from rank " : "sending to rank ") + std::to_string(request.peer));
  pack(request, handle);
  if (finished == 0) return false;
  request.active = false;
  int received = 0;
  if (request.receives) MPI_Get_count(&status, MPI_BYTE, &received);
  if (request.receives && static_cast<std::size_t>(received) != request.bytes)
    throw InternalError("rank " + std::to_string(request.peer) + " sent " + std::to_string(received) + " bytes where rank " +
                        std::to_string(rank_) + " awaits " + std::to_string(request.bytes));
  return true;
}

EnvironmentFailure Communicator::stalled(std::string_view awaited) const {
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "%.3g", stall_seconds_);
  std::string where;
  for (const auto& neighbour : neighbours()) {
    const auto notes = neighbour.place->last();
    const bool waits = !notes.empty() && (notes.back().doing == Doing::Awaiting || notes.back().doing == Doing::Meeting);
    const bool suspect = !waits || neighbour.place->state() != BoardPlace::State::Running;
    if (neighbour.rank != rank_ && suspect) where += "; " + at_what(neighbour);
  }
  return EnvironmentFailure("rank " + std::to_string(rank_) + " has waited " + number.data() + " s for " + std::string(awaited) +
                            " without progress" + where);
}

void Communicator::poll_until(const std::function<bool()>& finished, std::string_view what, const std::function<void()>& meanwhile) {
  WaitingTime waiting;
  while (!finished()) {
    if (meanwhile) meanwhile();
    ::sched_yield();
    require_neighbours();
    waiting.look(now_seconds());
    if (waiting.seconds() > stall_seconds_) throw stalled(what);
  }
}

void Communicator::wait(Request& request, std::string_view what, const std::function<void()>& meanwhile) {
  const std::string awaited = "rank " + std::to_string(request.peer) + (request.receives ? " to send " : " to take ") + std::string(what);
  poll_until([&] { return done(request); }, awaited, meanwhile);
}

void Communicator::barrier(std::string_view what) {
  MPI_Request handle = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(mpi_->of(Channel::Service), &handle), what);
  poll_until([&] { return tested(handle, what); }, "all ranks to reach " + std::string(what));
}

void Communicator::wait_for_all(const std::function<bool()>& done, std::string_view what) {
  constexpr double kShare = 0.1, kShortest = 0.001, kLongest = 0.1;  // what a pause adds to the wait, and seconds
  const double begin = now_seconds();
  for (bool own = done(); true; own = own || done()) {
    const double left = own ? 0 : 1;
    const auto all = exchange({&left, 1}, what);
    if (std::ranges::all_of(all, [](double l) { return l == 0; })) return;
    const double pause = std::clamp(kShare * (now_seconds() - begin), kShortest, kLongest);
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
}

void Communicator::wait_for_rank_0(const std::function<void()>& work, std::string_view what) {
  if (size() == 1) return work();
  std::future<void> working;
  own_place().hold(true);  // the work may play instructions of another program
  if (rank_ == 0) working = std::async(std::launch::async, work);
  try {
    wait_for_all([&] { return !working.valid() || working.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }, what);
  } catch (const Error& lost) {
    if (working.valid() && end_) end_(lost);  // what the work uses must not go, and it may take long
    throw;
  }
  own_place().hold(false);
  if (working.valid()) working.get();
}

std::vector<double> Communicator::exchange(std::span<const double> own, std::string_view what, const std::function<void()>& meanwhile) {
  if (size() == 1) return {own.begin(), own.end()};
  std::vector<double> all(node_of_.size() * own.size());
  const auto count = static_cast<int>(own.size());
  MPI_Request handle = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(own.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, mpi_->of(Channel::Service), &handle), what);
  poll_until([&] { return tested(handle, what); }, "all ranks to reach " + std::string(what), meanwhile);
  return all;
}

double Communicator::sum(double value) {
  double total = 0.0;
  for (const double v : exchange({&value, 1}, "a sum")) total += v;
  return total;
}

double Communicator::min(double value) { return std::ranges::min(exchange({&value, 1}, "a minimum")); }
double Communicator::max(double value) { return std::ranges::max(exchange({&value, 1}, "a maximum")); }

void Communicator::send_text(int peer, std::string_view bytes, std::string_view what) {
  std::uint64_t size = bytes.size();
  auto announced = send(peer, &size, sizeof size, Channel::Service, kServiceTag);
  wait(announced, what);
  for (std::size_t at = 0; at < bytes.size(); at += kLargestMessage) {
    auto piece = send(peer, bytes.data() + at, std::min(kLargestMessage, bytes.size() - at), Channel::Service, kServiceTag);
    wait(piece, what);
  }
}

std::string Communicator::receive_text(int peer, std::string_view what) {
  std::uint64_t size = 0;
  auto announced = receive(peer, &size, sizeof size, Channel::Service, kServiceTag);
  wait(announced, what);
  std::string bytes(size, '\0');
  for (std::size_t at = 0; at < size; at += kLargestMessage) {
    auto piece = receive(peer, bytes.data() + at, std::min(kLargestMessage, bytes.size() - at), Channel::Service, kServiceTag);
    wait(piece, what);
  }
  return bytes;
}

std::vector<std::string> Communicator::gather(std::string_view bytes) {
  if (rank_ != 0) {
    send_text(0, bytes, "what rank 0 gathers");
    return {};
  }
  std::vector<std::string> all{std::string(bytes)};
  for (int peer = 1; peer < size(); ++peer) all.push_back(receive_text(peer, "what rank 0 gathers"));
  return all;
}

std::string Communicator::broadcast(std::string_view bytes) {
  if (rank_ != 0) return receive_text(0, "what it tells all ranks");
  for (int peer = 1; peer < size(); ++peer) send_text(peer, bytes, "what rank 0 tells all ranks");
  return std::string(bytes);
}

double Communicator::ask_clock(int peer) {
  double mine = 0.0, theirs = 0.0;
  auto in = receive(peer, &theirs, sizeof theirs, Channel::Service, kServiceTag);
  auto out = send(peer, &mine, sizeof mine, Channel::Service, kServiceTag);
  wait(out, "a clock reading");
  wait(in, "a clock reading");
  return theirs;
}

ClockOffset Communicator::clock_offset(int rounds) {
  ClockOffset best;
  double shortest = std::numeric_limits<double>::infinity();
  for (int peer = 1; peer < size(); ++peer) {
    barrier("the comparison of clocks");  // one pair at a time, else rank 0 answers late
    for (int i = 0; i < rounds && rank_ == 0; ++i) answer_clock(peer);
    for (int i = 0; i < rounds && rank_ == peer; ++i) {
      const double asked = now_seconds();
      const double theirs = ask_clock(0);
      const double trip = now_seconds() - asked;
      if (trip >= shortest) continue;
      shortest = trip;
      best = {theirs - (asked + trip / 2), trip / 2};
    }
  }
  barrier("the comparison of clocks");
  return best;
}

void Communicator::answer_clock(int peer) {
  double asked = 0.0;
  auto in = receive(peer, &asked, sizeof asked, Channel::Service, kServiceTag);
  wait(in, "a clock reading");
  const double mine = now_seconds();
  auto out = send(peer, &mine, sizeof mine, Channel::Service, kServiceTag);
  wait(out, "a clock reading");
}

void Communicator::end_all(const std::string& sentence, ExitStatus status, const Tell& tell) {
  // What one cause does to several ranks is said by the lowest: its end reaches the others while they still sleep here.
  const long milliseconds = rank_ == 0 ? 0 : std::min(600L + 20L * rank_, 2400L);
  const timespec pause{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  ::nanosleep(&pause, nullptr);
  if (std::ranges::none_of(places_, [](const BoardPlace* place) { return place->has_spoken(); })) {
    own_place().speak();
    const std::string speaker = size() > 1 && rank_ != 0 ? "rank " + std::to_string(rank_) + ": " : "";
    tell(speaker + sentence);
  }
  constexpr double kPatience = 1;  // a launcher that ends the job already may take as long as it is set to before it kills
  MpiSession::end_within(kPatience, static_cast<int>(status));
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(status));
  std::_Exit(static_cast<int>(status));  // MPI_Abort does not return; the compiler cannot know
}

int threads_per_rank(const Communicator& world) {
  const int asked = threads_asked_for();
  return asked > 0 ? asked : world.cores();
}

}  // namespace rehearsal::exec
