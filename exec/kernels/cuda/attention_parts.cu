#include "exec/kernels/cuda/attention_parts.hpp"

#include "exec/kernels/cuda/attention_scores.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/strided_copies.hpp"

namespace rehearsal::exec::cuda {
namespace {

template <class T>
inline constexpr float kAddedToHide = std::is_same_v<T, Half> ? -3e4F : kHidden;

template <class T>
struct AddScores {
  Scores<T> scores;
  AddedScores added;
  std::int64_t heads_of_batch;
  T* to;
  std::uint8_t* seen;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t number) const {
    const Division row = divide(number, added.rows), head = divide(row.quotient, added.heads);
    const auto matrix = scores.matrix(head.quotient * heads_of_batch + head.remainder);
    T* line = to + number * added.keys;
    float largest = minus_infinity<float>();
    for (std::int64_t key = team.rank(); key < added.keys; key += team.size()) {
      const float score = scores.score(matrix, row.remainder, key, 0.0F);
      largest = LargestNumber{}(largest, score);
      line[key] = static_cast<T>(score < kAddedToHide<T> ? kAddedToHide<T> : score);
    }
    largest = team.reduce(largest, LargestNumber{});
    const bool sees_nothing = largest <= kSeen, has_none = largest == minus_infinity<float>();
    if (team.rank() == 0) seen[number] = sees_nothing && !has_none ? 0 : 1;
    if (!sees_nothing) return;
    for (std::int64_t key = team.rank(); key < added.keys; key += team.size())
      line[key] = static_cast<T>(has_none ? no_number<float>() : 0.0F);
  }
};

template <class T>
void write_as(const Call& call, std::size_t queries, const AddedScores& added, std::int64_t heads, const AddedMemory& to) {
  const auto problem = graph::attention_problem(call.problem.view(), queries);
  for_each_row(call.context.stream, added.all_rows(), added.keys,
               AddScores<T>{Scores<T>(call, problem, queries), added, heads, static_cast<T*>(to.scores), to.seen}, kTileLanes);
}

struct ClearUnseen {
  SeenRows rows;
  const std::uint8_t* seen;
  const std::uint16_t* from;
  std::uint16_t* to;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t number) const {
    const Division row = divide(number, rows.added.rows), head = divide(row.quotient, rows.heads);
    const std::int64_t batch = rows.added.batches == 1 ? 0 : head.quotient, own = rows.added.heads == 1 ? 0 : head.remainder;
    const bool keeps = seen[(batch * rows.added.heads + own) * rows.added.rows + row.remainder] != 0;
    const std::uint16_t* source = from + number * rows.columns;
    std::uint16_t* target = to + number * rows.columns;
    for (std::int64_t c = team.rank(); c < rows.columns; c += team.size()) target[c] = keeps ? source[c] : std::uint16_t{0};
  }
};

}  // namespace

void write_added_scores(const Call& call, std::size_t queries, const AddedScores& added, std::int64_t heads, const AddedMemory& to) {
  call.problem.inputs[queries]->dtype == DType::F16 ? write_as<Half>(call, queries, added, heads, to)
                                                    : write_as<BFloat16>(call, queries, added, heads, to);
}

void clear_unseen_rows(DeviceStream stream, const SeenRows& rows, const std::uint8_t* seen, const void* from, void* to) {
  for_each_row(stream, rows.batches * rows.heads * rows.added.rows, rows.columns,
               ClearUnseen{rows, seen, static_cast<const std::uint16_t*>(from), static_cast<std::uint16_t*>(to)});
}

void transpose_matrices(DeviceStream stream, const Matrices16& m, const void* from, void* to) {
  const graph::StridedView source{{m.count, m.columns, m.rows}, {m.rows * m.columns, 1, m.columns}};
  copy_strided(stream, static_cast<const std::uint16_t*>(from), source, static_cast<std::uint16_t*>(to), graph::whole_view(source.shape));
}

}  // namespace rehearsal::exec::cuda
