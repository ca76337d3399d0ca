#include "exec/play/staged_samples.hpp"

namespace rehearsal::exec {
namespace {

std::int64_t bytes_of_staged(const graph::TensorType& type) { return static_cast<std::int64_t>(graph::size_of(type).value()); }

}  // namespace

StagedSamples::StagedSample& StagedSamples::place_for(const SampleLoad& wanted) {
  auto& staged = staged_[&wanted.buffer];
  if (staged.reading.valid()) staged.reading.wait();
  if (!staged.memory || staged.memory->bytes() < bytes_of_staged(wanted.type)) {
    staged = {};
    staged.memory = std::make_unique<DeviceMemory>(device_, bytes_of_staged(wanted.type), DeviceMemory::Where::Host);
  }
  return staged;
}

void StagedSamples::read(DataSource& source, const SampleLoad& wanted, StagedSample& staged) const {
  loading_.load(source, wanted.buffer, wanted.type, wanted.place, staged.memory->data());
  staged.samples = loading_.samples(wanted.buffer, wanted.place);
  staged.source = &source;
}

/// Of what has been read nothing is kept: each reading holds the one before it.
void StagedSamples::wait() {
  if (last_.valid()) last_.wait();
  last_ = {};
  for (auto& [buffer, staged] : staged_) staged.reading = {};
}

void StagedSamples::load(DataSource& source, const SampleLoad& wanted, void* to) {
  auto& staged = place_for(wanted);
  const auto samples = loading_.samples(wanted.buffer, wanted.place);
  // What could not be read ahead may never be wanted: it is tried again, and fails then.
  const bool is_there = staged.source == &source && staged.samples.first == samples.first && staged.samples.count == samples.count;
  if (!is_there) {
    wait();
    read(source, wanted, staged);
  }
  device_.upload(to, staged.memory->data(), static_cast<std::size_t>(bytes_of_staged(wanted.type)));
  staged.source = nullptr;
  if (wanted.passes > 0) read_ahead(source, wanted, staged);
}

void StagedSamples::read_ahead(DataSource& source, const SampleLoad& wanted, StagedSample& staged) {
  const auto [step, pass] = wanted.place;
  const auto next =
      pass + 1 < wanted.passes ? SampleLoading::MicroBatchOfStep{step, pass + 1} : SampleLoading::MicroBatchOfStep{step + 1, 0};
  const auto work = [this, &source, &staged, before = last_, buffer = &wanted.buffer, type = wanted.type, next] {
    if (before.valid()) before.wait();
    try {
      read(source, {*buffer, type, next}, staged);
    } catch (...) {
      staged.source = nullptr;
    }
  };
  staged.reading = last_ = std::async(std::launch::async, work).share();
}

}  // namespace rehearsal::exec
