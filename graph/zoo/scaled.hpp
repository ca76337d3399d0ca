#pragma once
// Models of the zoo in other sizes: a family of decoders that differ in width and depth alone.

#include <string>
#include <string_view>

namespace rehearsal::graph::zoo {

/// Whether a reference names an architecture with blocks, width and heads, and says none of them: "zoo:llama?seq=4096" does not.
[[nodiscard]] bool leaves_size_open(std::string_view reference);

/// The reference of a model as this one, with about so many parameters. Width and depth grow together, so that width over depth stays
/// near what it is; heads keep their width, and groups of heads and the feed-forward layer their share. Wide models have heads in
/// multiples of four or more, deep ones blocks in multiples of two or four, so that plans can split them.
/// Throws Refusal for a model without blocks, width and heads, and for fewer parameters than its embedding and one block have.
[[nodiscard]] std::string scaled(std::string_view reference, double parameters);

}  // namespace rehearsal::graph::zoo
