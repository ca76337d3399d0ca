#include "base/names.hpp"

#include <string>

#include "tests/catch.hpp"

using namespace rehearsal;

namespace {

const Names kNames{"adam", "adamw", "recursive-doubling", "resnet50_v1", "micro_batch"};

}  // namespace

TEST_CASE("names: case and signs between words do not matter") {
  CHECK(find_name("AdamW", kNames) == "adamw");
  CHECK(find_name("Recursive Doubling", kNames) == "recursive-doubling");
  CHECK(find_name("ResNet50-v1", kNames) == "resnet50_v1");
  CHECK(find_name("microbatch", kNames) == "micro_batch");
  CHECK_FALSE(find_name("adamx", kNames));
  CHECK_FALSE(find_name("", kNames));
  CHECK_FALSE(find_name("-", {"_"}));
}

TEST_CASE("names: a spelling that two names share means the one that is written so, or none") {
  const Names twins{"a-b", "a_b"};
  CHECK(find_name("a_b", twins) == "a_b");
  CHECK_FALSE(find_name("A.B", twins));
}

TEST_CASE("names: the nearest has at least half of the letters") {
  CHECK(nearest_name("admaw", kNames) == "adamw");
  CHECK(nearest_name("ADAMS", kNames) == "adam");
  CHECK(nearest_name("micro-bach", kNames) == "micro_batch");
  CHECK_FALSE(nearest_name("lion", kNames));
  CHECK_FALSE(nearest_name(std::string(1000, 'a'), kNames));
}

TEST_CASE("names: a refusal says which is nearest, and all that are known") {
  CHECK(known_name("--optimizer", "Adam", kNames) == "adam");
  CHECK_THROWS_WITH(known_name("--optimizer", "adamv", {"adamw", "sgd"}),
                    "--optimizer: 'adamv' is unknown; did you mean \"adamw\"? Known: adamw, sgd");
  CHECK_THROWS_WITH(known_name("--optimizer", "lion", {"adamw", "sgd"}), "--optimizer: 'lion' is unknown. Known: adamw, sgd");
}
