#pragma once
// Samples cut from long rows of tokens: each is `length` tokens, and the target is the token behind each of them.

#include <memory>
#include <vector>

#include "exec/data/dataset.hpp"
#include "exec/data/stored_file.hpp"

namespace rehearsal::exec {

/// Tokens one after the other. Samples do not go from one row over into the next.
struct TokenStream {
  std::shared_ptr<const StoredFile> file;
  DType dtype = DType::U16;
  std::int64_t offset = 0;  ///< of the first token, in bytes
  std::int64_t tokens = 0;
};

/// "uint16" as numpy names it, or u16. Throws BadInput naming the file when tokens are not read from it.
[[nodiscard]] DType token_type(const std::string& name, const std::string& where);
/// The length of a sample is the model's; key `seq` must agree with it. Throws BadInput naming the file.
[[nodiscard]] std::unique_ptr<Dataset> token_data(std::vector<TokenStream> streams, const DatasetRequest&);

}  // namespace rehearsal::exec
