#pragma once
// What attention by a library needs beside the library: what is added to the scaled products, as one tensor, and matrices stored the other
// way round. All of 16-bit numbers.

#include <cstdint>

#include "exec/kernels/kernel.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/attention.hpp"

namespace rehearsal::exec::cuda {

/// [batches, heads, rows, keys] of the problem's own type, 1 where nothing depends on it.
struct AddedScores {
  std::int64_t batches = 1, heads = 1, rows = 0, keys = 0;
  [[nodiscard]] std::int64_t all_rows() const { return batches * heads * rows; }
  [[nodiscard]] std::int64_t elements() const { return all_rows() * keys; }
};
/// In memory: what is added, and of every row whether it sees a key at all.
struct AddedMemory {
  void* scores;
  std::uint8_t* seen;
};

/// What the steps of an attention make of a product of 0: steps that scale the product have scaled it before. Hidden scores become so low
/// that e to them is 0. Rows that see nothing see all keys alike, which a library's sums of exponentials cannot say of such low scores:
/// nothing is added there, and `seen` is 0 (queries of 0 then make all scores equal). Where all scores are -infinity, they become NaN.
/// `queries`: as of graph::attention_problem(). `heads`: matrices of queries for each index of the first of the two batch dimensions.
void write_added_scores(const reference::Call& call, std::size_t queries, const AddedScores& added, std::int64_t heads,
                        const AddedMemory& to);

/// Rows of `batches` x `heads` matrices, which share flags as AddedScores says.
struct SeenRows {
  AddedScores added;
  std::int64_t batches, heads, columns;
};
/// Rows that see nothing become 0; `from` may be `to`.
void clear_unseen_rows(DeviceStream stream, const SeenRows& rows, const std::uint8_t* seen, const void* from, void* to);

/// `count` matrices [rows, columns], each to [columns, rows].
struct Matrices16 {
  std::int64_t count, rows, columns;
};
void transpose_matrices(DeviceStream stream, const Matrices16& matrices, const void* from, void* to);

}  // namespace rehearsal::exec::cuda
