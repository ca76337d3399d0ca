#pragma once
// Which framework is meant where none is named, and what is known about answers under one.

#include <string>
#include <vector>

#include "costmodel/framework.hpp"
#include "graph/graph.hpp"
#include "plan/plan.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::predict::frameworks {

/// Parameters are sharded (zero=3), and split neither by tensors nor by stages.
[[nodiscard]] bool is_sharded(const plan::Plan&);

/// A decoder has an attention in which no position sees those behind it; it is sharded where the plan is.
[[nodiscard]] costmodel::ModelKind kind_of(const graph::Graph& forward, const plan::Plan& = {});

/// What most of the devices that so many ranks are on usually run such models with, whatever the order of nodes.
[[nodiscard]] const costmodel::FrameworkProfile& usual_framework(const platforms::Platform&, costmodel::ModelKind, int ranks);

/// All that are usual for a model on the platform: under some plan, on some of its devices.
[[nodiscard]] std::vector<const costmodel::FrameworkProfile*> usual_frameworks(const platforms::Platform&, const graph::Graph& forward);

/// Others that train such models, and of which there are published times on the platform's first device, those with most times first.
[[nodiscard]] std::vector<const costmodel::FrameworkProfile*> others_seen_on(const platforms::Platform&, costmodel::ModelKind, int ranks);

/// Published times that answers under a framework were compared with.
struct Grounds {
  int times = 0;            ///< on the device, or on others where there are none on it; 0: there are none at all
  double median_error = 0;  ///< of predictions made without the source of each
  std::string sentence;
};
[[nodiscard]] Grounds grounds_of(const costmodel::FrameworkProfile&, const platforms::Device&);
/// On the kind of device that least is known of: where devices differ a prediction is no better known than that.
[[nodiscard]] Grounds grounds_of(const costmodel::FrameworkProfile&, const platforms::Platform&);

}  // namespace rehearsal::predict::frameworks
