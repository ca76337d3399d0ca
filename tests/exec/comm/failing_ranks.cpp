// A program of which one rank fails in the way that its argument names; failures.cpp runs it under mpirun and reads what comes of it.
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <thread>

#include "exec/comm/transfers.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

/// All-reduces until rank 1 fails in the middle of a step.
int train(Communicator& world, const std::string& failure) {
  std::vector<int> group;
  for (int r = 0; r < world.size(); ++r) group.push_back(r);
  const auto steps = plan::collective(plan::CollectiveKind::AllReduce, "ring").steps(world.rank(), world.size(), 100'000, 1);
  std::vector<float> gradient(100'000, 1e-30F);
  Transfers transfers(world);
  for (int step = 0; step < 1'000'000; ++step) {
    const auto ticket = transfers.start_collective({&steps, group, gradient.data(), DType::F32}, "gradient");
    if (world.rank() == 1 && step == 20) {
      if (failure == "kill") ::kill(::getpid(), SIGKILL);
      if (failure == "stop") ::kill(::getpid(), SIGSTOP);
      if (failure == "exit") ::_exit(3);
      if (failure == "throw") throw Refusal("nothing of it fits");
      if (failure == "escape") throw std::runtime_error("a bug of ours");
    }
    if (failure == "together" && step == 20) throw BadInput("model.onnx", "is broken for everyone");
    transfers.wait(ticket);
    transfers.forget();
  }
  return 0;
}

/// Waits for work that takes longer than the stall time, at which rank 1 stops with "stop-late", rank 0 with "stop-work".
int work(Communicator& world, const std::string& failure) {
  world.set_stall_seconds(0.5);
  const double end = now_seconds() + 1.5;
  const auto over = [&] { return now_seconds() > end; };
  world.wait_for_all([&] { return world.rank() != 1 || over(); }, "the late one");
  const auto stop_if = [&](bool stops) {
    if (stops) ::kill(::getpid(), SIGSTOP);
    return true;
  };
  world.wait_for_all([&] { return stop_if(world.rank() == 1 && failure == "stop-late"); }, "the one that stopped");
  world.wait_for_rank_0([&] { std::this_thread::sleep_for(std::chrono::milliseconds(1500)); }, "slow work");
  if (failure == "stop-beside") {
    if (world.rank() == 1) ::kill(::getpid(), SIGSTOP);
    world.wait_for_rank_0([] { std::this_thread::sleep_for(std::chrono::hours(1)); }, "work that lasts");
  }
  world.wait_for_rank_0([&] { stop_if(failure == "stop-work"); }, "work that stopped");
  world.wait_for_rank_0([] { throw Refusal("the work cannot be done"); }, "work that fails");
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  const std::string failure = arguments[1];
  MpiSession session;
  return run_as_rank(
      session,
      [&](Communicator& world) {
        return failure == "throw-work" || failure.starts_with("stop-") ? work(world, failure) : train(world, failure);
      },
      [](const std::string& sentence) { std::cerr << sentence << std::endl; });
}
