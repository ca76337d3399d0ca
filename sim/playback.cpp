#include "sim/playback.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::sim {

using plan::InstructionKind;

Playback::Playback(const predict::EvaluationRequest& request, PlaybackOptions options, Routes& routes, FairNetwork& network)
    : request_(request),
      options_(std::move(options)),
      routes_(routes),
      links_(request.program, request.platform, routes.fabric(), request.model),
      traffic_(request.program, routes.fabric()),
      network_(network),
      messages_(routes, network, request.model.communication_factor()),
      collectives_(messages_, network, request.model.reduction_rate()),
      priced_(request.platform, routes, network),
      tables_(request.program.roles.size()),
      slot_of_(static_cast<std::size_t>(request.program.ranks), -1) {
  for (const int rank : options_.ranks) {
    const auto role = request.program.role_of[static_cast<std::size_t>(rank)];
    if (tables_[role].role == nullptr) tables_[role] = timetable_of(request, role);
    slot_of_[static_cast<std::size_t>(rank)] = static_cast<int>(ranks_.size());
    auto& state = ranks_.emplace_back();
    state.table = &tables_[role];
    state.ended.resize(state.table->runs.size());
    state.collectives.resize(request.program.axes.size());
    state.host = predict::HostClock(request.costs.interference);
    state.samples.emplace(request, request.program.roles[role]);
    if (std::ranges::find(options_.recorded, rank) != options_.recorded.end()) state.times.resize(state.table->runs.size());
  }
}

void Playback::play() {
  for (const int rank : options_.ranks) advance(rank);
  network_.run(*this);
  for (const auto& r : ranks_)
    for (std::size_t s = 0; s < kStreams; ++s)
      ensure(r.streams[s].next == r.table->streams[s].size(), "a program whose messages do not match was played");
}

const InstructionRun& Playback::head(const RankState& r, std::size_t stream) const {
  return r.table->runs[r.table->streams[stream][r.streams[stream].next]];
}

// Messages first: kernels want to know what runs beside them.
void Playback::advance(int rank) {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stream = kStreams; stream-- > 0;) {
      if (stream == 0) announce_collectives(state(rank));
      moved = advance_stream({rank, stream}) || moved;
    }
  }
}

void Playback::announce_collectives(RankState& r) {
  if (request_.costs.interference <= 0) return;
  const auto& queue = r.table->streams[static_cast<std::size_t>(plan::Stream::Collective)];
  for (; r.announced < queue.size() && ready(r, r.table->runs[queue[r.announced]]); ++r.announced)
    r.messages_until = std::max(r.messages_until, network_.now()) + r.table->runs[queue[r.announced]].cost.device;
}

bool Playback::advance_stream(RankStream at) {
  auto& r = state(at.rank);
  auto& stream = r.streams[at.stream];
  bool moved = false;
  while (!stream.busy && stream.next < r.table->streams[at.stream].size() && ready(r, head(r, at.stream))) {
    begin(at, head(r, at.stream));
    moved = true;
  }
  return moved;
}

bool Playback::ready(const RankState& r, const InstructionRun& run) const {
  return std::ranges::all_of(r.table->needs(run), [&](std::uint32_t needed) { return r.ended[needed]; });
}

void Playback::begin(RankStream at, const InstructionRun& run) {
  switch (state(at.rank).table->instruction(run).kind) {
    case InstructionKind::Send:
      return send(at, run);
    case InstructionKind::Receive:
      return receive(at, run);
    case InstructionKind::Collective:
      return collect(at, run);
    default:
      return compute(at, run);
  }
}

/// A kernel whose result another rank makes for this one.
bool Playback::leaves_to_others(int rank, const InstructionRun& run) const {
  return !plan::takes_part(request_.program, rank, state(rank).table->instruction(run));
}

// Computation runs ahead of the network's clock until something else wants to know when it ends.
void Playback::compute(RankStream at, const InstructionRun& run) {
  auto& r = state(at.rank);
  auto& stream = r.streams[at.stream];
  const double begin = std::max(stream.free, network_.now());
  if (leaves_to_others(at.rank, run)) {
    stream.began = stream.free = begin;
  } else if (run.stream == plan::Stream::Compute) {
    const double samples = r.samples->begin(r.table->slot(run), begin);
    if (samples > begin) {
      r.host.wait(samples);
      r.spent.waited_for_input(begin, samples);
    }
    stream.free = launch(at, run, samples);
    if (samples > begin && r.table->instruction(run).kind == InstructionKind::Load) stream.began = begin;
  } else {
    stream.began = begin;
    stream.free = begin + run.cost.device;
  }
  stream.busy = true;
  if (run.awaited && stream.free > network_.now())
    network_.alarm(stream.free, token_of(Occasion::RunEnded, static_cast<std::uint64_t>(at.rank) * kStreams + at.stream));
  else
    end_run(at);
}

/// When what the host issues at `begin` at the earliest has run.
double Playback::launch(RankStream at, const InstructionRun& run, double begin) {
  auto& r = state(at.rank);
  auto& stream = r.streams[at.stream];
  double arrived = 0;
  for (const auto needed : r.table->needs(run))
    if (const auto message = r.received.extract(needed)) arrived = std::max(arrived, message.mapped());
  r.host.wait(arrived);
  const auto launched = r.host.launch(run.cost, begin, r.messages_until);
  r.spent.idled(begin, launched.begin);
  stream.began = launched.begin;
  if (!r.times.empty()) {
    auto& times = r.times[r.table->streams[at.stream][stream.next]];
    times.issue_begin = launched.issue_begin;
    times.issue_end = launched.issue_end;
  }
  return launched.end;
}

void Playback::send(RankStream at, const InstructionRun& run) {
  auto& r = state(at.rank);
  const auto& i = r.table->instruction(run);
  const auto& info = r.table->role->messages[static_cast<std::size_t>(i.message)];
  const int other = plan::peer(request_.program, at.rank, info);
  const Address address{at.rank, other, info.channel, r.table->slot(run).micro_batch};
  ensure(other >= 0 && other < request_.program.ranks && slot_of_[static_cast<std::size_t>(other)] >= 0,
         "a message goes to a rank that is played");
  auto& message = pending_[address];
  r.streams[at.stream].busy = true;
  r.streams[at.stream].began = network_.now();
  if (message.expected) {
    auto& receiving = state(other).streams[*message.expected];
    receiving.began = std::max(receiving.began, network_.now());
  }
  if (unused_addresses_.empty()) {
    unused_addresses_.push_back(static_cast<std::uint32_t>(on_their_way_.size()));
    on_their_way_.emplace_back();
  }
  const auto which = unused_addresses_.back();
  unused_addresses_.pop_back();
  on_their_way_[which] = {address, static_cast<std::uint32_t>(at.stream)};
  if (request_.costs.with_messages)
    priced_.send(at.rank, other, options_.closed_form_collectives ? 0 : bytes_of(r, run), run.cost.device, {-1, which});
  else
    send_bytes({at.rank, other}, info, bytes_of(r, run), {false, which, static_cast<std::uint32_t>(at.stream), 0});
}

/// Where the other replicas are not played, their messages take their share of the links all the same.
void Playback::send_bytes(SimulatedMessages::Ends ends, const plan::MessageInfo& info, double bytes, const MessagePurpose& purpose) {
  if (options_.closed_form_collectives)
    messages_.send_one_of(traffic_.crossing(ends.from, info), ends, bytes, purpose);
  else
    messages_.send(ends, bytes, purpose);
}

void Playback::receive(RankStream at, const InstructionRun& run) {
  auto& r = state(at.rank);
  const auto& info = r.table->role->messages[static_cast<std::size_t>(r.table->instruction(run).message)];
  const Address address{plan::peer(request_.program, at.rank, info), at.rank, info.channel, r.table->slot(run).micro_batch};
  auto& message = pending_[address];
  message.expected = at.stream;
  auto& stream = r.streams[at.stream];
  stream.began = network_.now();
  stream.busy = true;
  if (!message.arrived) return;
  pending_.erase(address);
  stream.free = network_.now();
  end_run(at);
}

void Playback::message_arrived(const MessagePurpose& purpose) {
  const auto address = on_their_way_[purpose.which].address;
  unused_addresses_.push_back(purpose.which);
  const int from = std::get<0>(address), to = std::get<1>(address);
  auto& message = pending_[address];
  message.arrived = true;
  if (message.expected) {
    const RankStream receiving{to, *message.expected};
    pending_.erase(address);
    state(to).streams[receiving.stream].free = network_.now();
    end_run(receiving);
    advance(to);
  }
  state(from).streams[purpose.sender].free = network_.now();
  end_run({from, purpose.sender});
  advance(from);
}

void Playback::collect_priced(RankStream at, const InstructionRun& run) {
  auto& r = state(at.rank);
  const auto compute_stream = static_cast<std::size_t>(plan::Stream::Compute);
  if (options_.closed_form_collectives) return compute(at, run);
  const auto& info = r.table->role->collectives[static_cast<std::size_t>(r.table->instruction(run).collective)];
  auto& stream = r.streams[at.stream];
  const double ready = std::max(stream.free, network_.now());
  stream.began = ready;
  stream.busy = true;
  const double seconds = at.stream == compute_stream ? launch(at, run, ready) - ready : run.cost.device;
  const auto number = (static_cast<std::uint64_t>(run.slot) << 32) | run.instruction;
  meet(at, info.axis);
  priced_.join({info.kind, bytes_of(r, run), seconds, info.axis, number}, group(at.rank, info.axis).ranks, {at.rank, at.stream});
}

void Playback::priced_ended(std::uint64_t number) {
  for (const auto& waiting : priced_.ended(number)) {
    if (waiting.rank < 0) {  // a message between stages
      const auto which = static_cast<std::uint32_t>(waiting.stream);
      message_arrived({false, which, on_their_way_[which].sender, 0});
      continue;
    }
    state(waiting.rank).streams[waiting.stream].free = network_.now();
    end_run({waiting.rank, waiting.stream});
    advance(waiting.rank);
  }
}

void Playback::collect(RankStream at, const InstructionRun& run) {
  if (request_.costs.with_messages) return collect_priced(at, run);
  auto& r = state(at.rank);
  const auto& i = r.table->instruction(run);
  const auto& info = r.table->role->collectives[static_cast<std::size_t>(i.collective)];
  const auto element = static_cast<double>(size_of(r.table->role->buffers[i.outputs.empty() ? i.inputs.front() : i.outputs.front()].dtype));
  const auto& members = group(at.rank, info.axis);
  const plan::CollectiveMember member{at.rank, r.table->slot(run).micro_batch, static_cast<std::int64_t>(bytes_of(r, run) / element),
                                      element, members.per_node};
  auto& stream = r.streams[at.stream];
  stream.began = network_.now();
  stream.busy = true;
  if (options_.closed_form_collectives) {
    stream.free = network_.now() + closed_form_seconds(info, *r.table->role, member);
    return network_.alarm(stream.free, token_of(Occasion::RunEnded, static_cast<std::uint64_t>(at.rank) * kStreams + at.stream));
  }
  r.collective_stream = at.stream;
  meet(at, info.axis);
  const SimulatedCollective call{&request_.program, &info, r.table->role, member, r.collectives[info.axis] - 1};
  if (!collectives_.join(call, members.ranks, plan::coordinate(request_.program, at.rank, info.axis))) return;
  stream.free = network_.now();
  end_run(at);
}

/// Ranks that do the same come to a collective together, but for what they lose on links. Where ranks are unlike, those that are quicker
/// wait for the others before anything is on its way. (One that has left already, as the root of a broadcast may, waited for nobody.)
void Playback::meet(RankStream at, std::size_t axis) {
  const auto number = state(at.rank).collectives[axis]++;
  auto& members = group(at.rank, axis);
  if (members.alike) return;
  auto& here = members.early[number];
  here.push_back({at, state(at.rank).streams[at.stream].next});
  if (here.size() < members.ranks.size()) return;
  for (const auto& member : here)
    if (auto& stream = state(member.at.rank).streams[member.at.stream]; stream.next == member.run) stream.met = network_.now();
  members.early.erase(number);
}

double Playback::closed_form_seconds(const plan::CollectiveInfo& info, const plan::Role& role, const plan::CollectiveMember& member) {
  const auto& links = links_.of({info.axis, member.rank});
  return plan::collective_time(request_.program, info, role, member, links).value() * messages_.factor();
}

void Playback::end_run(RankStream at) {
  auto& r = state(at.rank);
  auto& stream = r.streams[at.stream];
  const auto run = r.table->streams[at.stream][stream.next];
  r.ended[run] = true;
  r.spent.was_active(stream.began, stream.free, stream.met);
  if (r.table->instruction(r.table->runs[run]).kind == InstructionKind::Receive) r.received[run] = stream.free;
  if (!r.times.empty()) r.times[run].begin = stream.began, r.times[run].end = stream.free;
  stream.busy = false;
  stream.met = 0;
  ++stream.next;
  ++events_;
}

void Playback::happened(Token token) {
  const auto number = number_of(token);
  ended_.clear();
  switch (occasion_of(token)) {
    case Occasion::LatencyPassed:
      return messages_.latency_passed(number);
    case Occasion::RunEnded: {
      const RankStream at{static_cast<int>(number / kStreams), number % kStreams};
      end_run(at);
      return advance(at.rank);
    }
    case Occasion::Arrived: {
      const auto purpose = messages_.arrived(number);
      if (!purpose.of_collective) return message_arrived(purpose);
      collectives_.arrived(purpose, ended_);
      break;
    }
    case Occasion::Reduced:
      collectives_.reduced(number, ended_);
      break;
    case Occasion::PricedEnded:
      return priced_ended(number);
  }
  for (const int rank : ended_) collective_ended(rank);
}

void Playback::collective_ended(int rank) {
  const auto own = state(rank).collective_stream;
  state(rank).streams[own].free = network_.now();
  end_run({rank, own});
  advance(rank);
}

double Playback::bytes_of(const RankState& r, const InstructionRun& run) const {
  return static_cast<double>(
      plan::message_bytes(*r.table->role, r.table->instruction(run), predict::variant_in(*r.table->role, r.table->slot(run))));
}

Playback::Group& Playback::group(int rank, std::size_t axis) {
  const int first = rank - plan::coordinate(request_.program, rank, axis) * request_.program.axes[axis].stride;
  auto& group = groups_[{axis, first}];
  if (!group.ranks.empty()) return group;
  group.ranks = plan::group(request_.program, rank, axis);
  const auto node = [&](int member) { return platforms::place(request_.platform, member).node; };
  const int home = node(first);
  group.per_node = static_cast<int>(std::ranges::count_if(group.ranks, [&](int member) { return node(member) == home; }));
  const auto& roles = request_.program.role_of;
  group.alike = std::ranges::all_of(
      group.ranks, [&](int member) { return roles[static_cast<std::size_t>(member)] == roles[static_cast<std::size_t>(first)]; });
  return group;
}

double Playback::end(int rank) const {
  double end = 0;
  for (const auto& stream : state(rank).streams) end = std::max(end, stream.free);
  return end;
}

predict::RankAccount Playback::account(int rank) const {
  const auto& r = state(rank);
  const auto& costs = request_.costs.roles[request_.program.role_of[static_cast<std::size_t>(rank)]];
  auto account = r.spent;
  for (const auto& run : r.table->runs) {
    if (run.communicates || run.stream == plan::Stream::Host || leaves_to_others(rank, run)) continue;
    const auto& slot = r.table->slot(run);
    account.ran(r.table->role->bodies[slot.body], r.table->instruction(run),
                predict::estimate_in(costs, *r.table->role, slot, run.instruction));
  }
  return account;
}

std::vector<predict::TimedInstruction> Playback::timeline(int rank) const {
  const auto& r = state(rank);
  std::vector<predict::TimedInstruction> timeline;
  for (std::size_t n = 0; n < r.times.size(); ++n) {
    const auto& run = r.table->runs[n];
    const auto& slot = r.table->slot(run);
    const auto& t = r.times[n];
    if (leaves_to_others(rank, run)) continue;
    if (t.issue_end > t.issue_begin)
      timeline.push_back({slot.body, run.instruction, slot.micro_batch, t.issue_begin, t.issue_end, t.issue_end - t.issue_begin, true});
    timeline.push_back({slot.body, run.instruction, slot.micro_batch, t.begin, t.end, t.end - t.begin});
  }
  return timeline;
}

}  // namespace rehearsal::sim
