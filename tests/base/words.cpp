#include "base/words.hpp"

#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("a text is the list of its words") {
  CHECK(words_of("").empty());
  CHECK(words_of("Relu") == std::vector<std::string_view>{"Relu"});
  CHECK(words_of(" Relu  Tanh Exp ") == std::vector<std::string_view>{"Relu", "Tanh", "Exp"});
  static_assert(words_of("Relu Tanh").size() == 2);
}

TEST_CASE("a list has whole words only, and no empty one") {
  static_assert(has_word("Relu Tanh", "Tanh"));
  CHECK(has_word("Relu Tanh", "Relu"));
  for (const char* other : {"", " ", "Rel", "elu", "Relu Tanh", "relu"}) CHECK(!has_word("Relu  Tanh ", other));
}
