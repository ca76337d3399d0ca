#pragma once
// Gradients of which every rank gets the sum of its own part (ZeRO; Rajbhandari et al. 2020): in buckets, in whose vectors the parts of
// one rank follow those of another. Stage 1 keeps the sums of whole gradients until the update, stages 2 and 3 only the own parts of what
// they add up.

#include <map>
#include <tuple>
#include <vector>

#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

/// What a RoleBuilder does with the gradients of its stage that are sharded.
class RoleBuilder::DealtGradients {
 public:
  explicit DealtGradients(RoleBuilder& builder) : b_(builder) {}

  /// Makes buckets of those of these gradients that are sharded. They are in the order in which the backward pass makes them.
  void plan(const std::vector<graph::TensorId>& gradients);
  [[nodiscard]] bool has(graph::TensorId gradient) const { return places_.contains(gradient); }
  /// Where its kernel may leave it: in the vector; kNoBuffer: it goes there later.
  [[nodiscard]] BufferIndex place_of(graph::TensorId gradient) const;
  /// A gradient has been made, or that of one more micro-batch.
  void add(graph::TensorId gradient, BufferIndex made, std::uint16_t body);
  /// This rank's part of the sum, for the update; kNoBuffer for what the conversion does not shard.
  [[nodiscard]] BufferIndex part(graph::TensorId gradient, int conversion);
  /// Sums over ranks that had to wait for more than the backward passes.
  void scatter_rest();

 private:
  struct Gradient {
    graph::TensorId tensor;
    int conversion;
    Redistribution redistribution;
    DealtOut dealt;
    BufferIndex made = kNoBuffer;   ///< until the vector has it
    BufferIndex place = kNoBuffer;  ///< of what is its own vector: in it
    BufferIndex part = kNoBuffer;
  };
  struct Bucket {
    std::size_t axis = 0;           ///< of the sharding, over whose ranks they are sharded
    std::vector<std::size_t> sums;  ///< axes over which the parts are still to be summed besides
    DType dtype = DType::F32;       ///< of what is sent
    std::uint16_t body = 0;         ///< that makes the gradients; 0 where they are added up in the vector, whoever makes them
    std::vector<Gradient> gradients = {};
    std::int64_t elements = 0;
    bool straight = false;  ///< the only gradient is its own vector
    bool scattered = false;
    std::size_t missing = 0;
    std::uint16_t last = 0;                                                 ///< body that makes the last of them so far
    std::int32_t redistribution = -1;                                       ///< the first one
    BufferIndex vector = kNoBuffer, narrow = kNoBuffer, parts = kNoBuffer;  ///< `narrow`: the vector in fewer bits, while it travels

    [[nodiscard]] bool alike(const Bucket& o) const {
      return std::tie(axis, sums, dtype, body) == std::tie(o.axis, o.sums, o.dtype, o.body);
    }
  };
  struct GradientInBucket {
    std::size_t bucket, gradient;
  };

  /// Stage 1 does, and stage 2 in the only micro-batch: as many whole parameters go meanwhile.
  [[nodiscard]] bool keeps_whole_sums() const { return b_.c_.plan.zero == 1 || (b_.c_.plan.zero == 2 && b_.c_.program.micro_batches == 1); }
  [[nodiscard]] bool adds_up_vectors() const { return keeps_whole_sums() && b_.c_.program.micro_batches > 1; }
  [[nodiscard]] int conversion_of(graph::TensorId) const;
  void add_to_bucket(graph::TensorId, int conversion);
  void close(Bucket&);
  void make_vector(Bucket&, Lifetime);
  void take_in(Bucket&, Gradient&, BufferIndex made, std::uint16_t body);
  void pack(Bucket&, std::uint16_t body);
  void scatter(Bucket&, std::uint16_t body);
  void unpack(Bucket&, std::uint16_t body);
  void add_up_parts(Bucket&, std::uint16_t body);
  void sum_parts(Bucket&);
  void set_parts(Bucket&, BufferIndex parts);
  [[nodiscard]] When when_in(std::uint16_t body) const;

  RoleBuilder& b_;
  std::vector<Bucket> buckets_;
  std::map<graph::TensorId, GradientInBucket> places_;
};

}  // namespace rehearsal::plan
