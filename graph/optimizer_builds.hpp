#pragma once
// Updates that are more than one node: what OptimizerRow::build is.

#include "graph/optimizer.hpp"

namespace rehearsal::graph {

using UpdateNodes = std::vector<TensorId>(GraphBuilder&, const UpdateOperands&, const Attributes&, const std::string& name);

UpdateNodes build_lars, build_lamb, build_novograd;
/// Of matrices, and of what has no two sides.
UpdateNodes build_adafactor, build_adafactor_of_vector;
/// Their last two slots are the sum of weights and the highest rate.
UpdateNodes build_schedule_free_sgd, build_schedule_free_adamw;
/// Of hidden matrices, and of all else: AdamW at `adam_rate` times the rate.
UpdateNodes build_muon, build_adamw_of_others;

/// Of a hidden matrix, a side that is short enough for moments of its own.
[[nodiscard]] bool has_short_rows(const ParameterUse& use);
[[nodiscard]] bool has_short_columns(const ParameterUse& use);
/// Of hidden matrices with moments of both sides, or of the one that is short enough.
UpdateNodes build_shampoo, build_soap;
/// Of weights whose gradient is one product. The direction is made first: it is clipped by what all of them add up to. Throws Refusal
/// naming the parameter whose gradient is no product.
BegunUpdate begin_kfac(GraphBuilder&, const UpdateOperands&, const Attributes&, const std::string& name);
UpdateNodes build_kfac;

/// A hidden matrix, or several, as an update multiplies them: kernels of convolutions are a matrix of two dimensions.
[[nodiscard]] Shape matrix_shape(const ParameterUse& use);

/// Products of Muon's iterations for one parameter.
[[nodiscard]] double muon_flops(const ParameterUse& use);

}  // namespace rehearsal::graph
