#pragma once
// How many cores this process may compute on.

namespace rehearsal::exec {

/// Physical cores among the processors that this thread may run on: taskset, a scheduler such as Slurm, or a launcher may have left it some
/// of the node's. At least 1.
[[nodiscard]] int usable_cores();

/// The same of the whole node, whatever this thread may use.
[[nodiscard]] int cores_of_node();

/// The lowest number of a processor that this thread may run on.
[[nodiscard]] int first_usable_processor();

/// This thread, and those that it starts from now on, may use all cores of the node again, or those that the system lets it have.
void leave_binding();

/// Leaves a binding that nobody asked for, where it is to fewer cores than one of `ranks` has of those that its launcher may use: Open MPI
/// binds each of one or two ranks to a core of its own unless it is told otherwise, and the node's other cores would do nothing. What
/// `mpirun --bind-to` says stays, and what taskset or a scheduler left the launcher. Open MPI 4 tells its ranks; of others nothing is
/// known.
void leave_default_binding(int ranks);

/// OMP_NUM_THREADS where it is set to a number, 0 otherwise. Throws BadInput where it is set to something else.
[[nodiscard]] int threads_asked_for();

}  // namespace rehearsal::exec
