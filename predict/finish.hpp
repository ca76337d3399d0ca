#pragma once
// When a training ends on machines that fail.
//
// Failures come at random, at a constant rate. A training is cut into pieces by checkpoints. At the end of a piece it waits while its state
// is copied; the copy is written beside the next piece, and is what training goes on from once it is written. A failure throws away what
// was done since the state of the last such copy. Machines also fail while they start again; they do not while the training waits for one
// of them. The training ends when its last checkpoint is written.
//
// With nothing written beside training and nobody waited for this is Daly's complete model (J. T. Daly, "A higher order estimate of the
// optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22, 2006). docs/goodput.md has the derivation.

#include <limits>

#include "base/units.hpp"
#include "costmodel/interval.hpp"

namespace rehearsal::predict {

/// What a training has to reckon with.
struct Disturbances {
  Seconds between_failures{std::numeric_limits<double>::infinity()};  ///< mean, of all that it runs on
  Seconds copying;                                                    ///< that training waits for one checkpoint
  Seconds writing;     ///< of a checkpoint, beside training; no longer than a piece and its copy
  Seconds restarting;  ///< from a failure, on machines that are there, until training goes on
  Seconds waiting;     ///< before that, where a machine has to be waited for
  double waits = 1;    ///< share of failures after which one has to be
};

struct WholeRun {
  Seconds step;
  double steps = 1;
  double every = 1;                                                   ///< steps between checkpoints; the last piece has what is left
  [[nodiscard]] Seconds undisturbed() const { return step * steps; }  ///< without failures and checkpoints
};

[[nodiscard]] Seconds expected_finish(const WholeRun&, const Disturbances&);
/// In the time until then.
[[nodiscard]] double expected_failures(const WholeRun&, const Disturbances&);
/// The expected finish, and the times before which 5 % and 95 % of trainings end, or the expected one where that lies beyond: by inverting the distribution's Fourier transform.
[[nodiscard]] costmodel::Interval finish(const WholeRun&, const Disturbances&);

/// The fewest steps between checkpoints with which one is written before the next begins.
[[nodiscard]] double fewest_steps_between(const WholeRun&, const Disturbances&);
/// Steps between checkpoints with which training is expected to end first; WholeRun::every is not looked at.
[[nodiscard]] double best_steps_between(const WholeRun&, const Disturbances&);

/// Work between checkpoints that loses least to first order: sqrt(2 C M) (J. W. Young, "A first order approximation to the optimum
/// checkpoint interval", Communications of the ACM 17, 1974).
[[nodiscard]] Seconds young_interval(Seconds copying, Seconds between_failures);
/// The same to higher order (Daly 2006, equation 37): sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C where C < 2 M, else M.
[[nodiscard]] Seconds daly_interval(Seconds copying, Seconds between_failures);

/// Share of failures that find no spare, when one that failed is a spare again `replacement` later: Erlang's loss formula (A. K. Erlang,
/// 1917), since a training that waits does not fail. The wait is then replacement / (spares + 1) in the mean.
[[nodiscard]] double share_without_spare(int spares, Seconds replacement, Seconds between_failures);

}  // namespace rehearsal::predict
