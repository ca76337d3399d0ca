// A program of which one rank fails in the way that its argument names; failures.cpp runs it under mpirun and reads what comes of it.
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>

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

}  // namespace

int main(int, char** arguments) {
  MpiSession session;
  return run_as_rank(
      session, [&](Communicator& world) { return train(world, arguments[1]); }, std::cerr);
}
