#pragma once
// Catch2 2 (Debian 12) and 3 (Ubuntu 24.04) behind one header.
#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

/// A matcher for CHECK_THAT and CHECK_THROWS_WITH: the text holds `part`.
inline auto contains(const std::string& part) {
#if __has_include(<catch2/catch_all.hpp>)
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}
