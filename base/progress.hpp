#pragma once
#include <string_view>

namespace rehearsal {

/// How long work tells its caller how far it is, and learns that it should stop.
/// The default does nothing: library code takes a Progress& and never prints.
class Progress {
 public:
  virtual ~Progress() = default;
  /// `done` of `total` units of `what` are finished.
  virtual void advance(std::string_view what, double done, double total) { (void)what, (void)done, (void)total; }
  /// True after the user asked to stop: finish the current unit, return what there is.
  [[nodiscard]] virtual bool stop_requested() const { return false; }
};

}  // namespace rehearsal
