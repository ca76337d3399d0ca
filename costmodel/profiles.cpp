#include <array>

#include "base/error.hpp"
#include "base/join.hpp"
#include "costmodel/cost_model.hpp"
#include "costmodel/framework.hpp"

namespace rehearsal::costmodel {

const ExecutionProfile& profile(const std::string& name) {
  static const ExecutionProfile kProfiles[] = {
      {"rehearse", "Rehearsal's own execution: kernels in program order, gradients reduced in buckets during the backward pass", 25e6,
       false},
  };
  for (const auto& p : kProfiles)
    if (p.name == name) return p;
  throw BadInput("--framework " + name, "is unknown; known: " + joined(kProfiles, ", ", &ExecutionProfile::name) + ", and for `estimate` " +
                                            joined(framework_profiles(), ", ", &FrameworkProfile::name));
}

}  // namespace rehearsal::costmodel
