#pragma once
// The command as a user starts it.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/process.hpp"

/// `ranks` 0: without mpirun. The arguments are words of the shell: quote what has & or ?.
inline Ended rehearse(const std::string& arguments, int ranks = 0, const std::string& before = "") {
  const auto launcher = ranks == 0 ? std::string() : REHEARSAL_MPIRUN " -n " + std::to_string(ranks) + " ";
  return run_shell(before + "REHEARSAL_STALL_SECONDS=20 " + launcher + "\"" REHEARSAL_COMMAND "\" " + arguments);
}

inline nlohmann::json result_of(const Ended& ended) {
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return nlohmann::json::parse(ended.out);
}

inline std::vector<double> losses_of(const Ended& ended) { return result_of(ended).at("losses").get<std::vector<double>>(); }

/// The command fails with this status and says so; its result is empty.
inline void check_failure(const Ended& ended, int status, const std::vector<std::string>& words) {
  INFO(ended.err);
  CHECK(ended.status == status);
  CHECK(ended.out.empty());
  for (const auto& word : words) CHECK_THAT(ended.err, contains(word));
}

inline constexpr const char* kGpt = "'zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=11'";
inline constexpr const char* kResnet = "'zoo:resnet18?image=32&classes=3'";
