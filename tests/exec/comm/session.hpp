#pragma once
#include "exec/comm/communicator.hpp"

/// The ranks that run this test, alone or under mpirun. MPI ends with the process.
inline rehearsal::exec::Communicator& world() {
  static rehearsal::exec::MpiSession session;
  return session.world();
}
