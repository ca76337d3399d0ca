#include "exec/play/sample_loading.hpp"

#include <algorithm>

#include "exec/host/block_moves.hpp"

namespace rehearsal::exec {

SampleLoading::SampleLoading(const plan::Program& program, const graph::Graph& graph, int rank)
    : program_(program), g_(graph), rank_(rank) {
  for (int m = 0; m < std::max(1, plan::micro_batches_of(program, rank)); ++m) first_of_.push_back(plan::samples(program, rank, m).first);
}

plan::Region SampleLoading::region(const plan::Buffer& buffer, const MicroBatchOfStep& place) const {
  return plan::region(program_, buffer, plan::position(program_, rank_, place.micro_batch));
}

namespace {

plan::Range rows_of(const plan::Region& mine) {
  return mine.empty() || mine.front().empty() ? plan::Range{0, 1} : plan::Range{mine.front().front().begin, mine.front().back().end};
}

}  // namespace

plan::SampleRange SampleLoading::samples(const plan::Buffer& buffer, const MicroBatchOfStep& place) const {
  const auto rows = rows_of(region(buffer, place));
  return {sample(place, rows.begin), rows.count()};
}

void SampleLoading::load(DataSource& data, const plan::Buffer& buffer, const graph::TensorType& local, const MicroBatchOfStep& place,
                         void* out) const {
  const auto& tensor = g_[buffer.tensor];
  const auto mine = region(buffer, place);
  const auto rows = rows_of(mine);
  graph::TensorType read = local;
  if (!tensor.type.shape.empty()) {
    read.shape = tensor.type.shape;
    read.shape.front() = rows.count();
  }
  if (read.shape == local.shape) return data.read({tensor.name, local, sample(place, rows.begin), rows.count()}, out);
  auto* to = static_cast<std::byte*>(out);
  auto part = local;
  if (data.reads_parts()) {
    for (const auto& range : mine.front()) {
      part.shape.front() = range.count();
      data.read({tensor.name, part, sample(place, range.begin), range.count(), &mine}, to);
      to += static_cast<std::size_t>(graph::size_of(part).value());
    }
    return;
  }
  part.shape.front() = read.shape.front() = 1;
  const auto whole = plan::whole_region(read.shape);
  auto wanted = mine;
  wanted.front() = whole.front();
  const plan::BlockCopy copy(whole, wanted);
  std::vector<std::byte> one(static_cast<std::size_t>(graph::size_of(read).value()));
  for (const auto& [begin, end] : mine.front())
    for (auto row = begin; row < end; ++row, to += static_cast<std::size_t>(graph::size_of(part).value())) {
      data.read({tensor.name, read, sample(place, row), 1}, one.data());
      run(copy, size_of(local.dtype), one.data(), to);
    }
}

}  // namespace rehearsal::exec
