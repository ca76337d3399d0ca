#include "plan/backend.hpp"

namespace rehearsal::plan {

KernelOffer TableBackend::offer(const LocalNode& node) const {
  KernelOffer offer;
  offer.implementation = kImplementation;
  offer.input_formats.assign(node.inputs.size(), Format::Plain);
  offer.output_formats.assign(node.outputs.size(), Format::Plain);
  return offer;
}

KernelOffer ListeningBackend::offer(const LocalNode& node) const {
  auto offer = backend_.offer(node);
  hear_(node, offer);
  return offer;
}

}  // namespace rehearsal::plan
