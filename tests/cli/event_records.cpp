// TensorBoard's files of events, byte by byte, and what is kept of them when a training goes on.
#include "cli/event_records.hpp"

#include "tests/cli/rehearse.hpp"

using namespace rehearsal::cli;

TEST_CASE("the checksum is CRC-32C") {
  CHECK(crc32c("123456789") == 0xE3069283U);            // the value that catalogues of checksums give
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);  // RFC 3720, B.4
}

TEST_CASE("an event as its two specifications have it") {
  const auto record = scalars_event({1.0, 300, {{"loss", 0.5F}}});
  // time: field 1 of 8 bytes; step 300 (0xAC 0x02): field 2; summary: field 5 of 13 bytes, its value field 1 of 11 bytes: tag and number.
  const std::string event = std::string("\x09\0\0\0\0\0\0\xF0\x3F", 9) + "\x10\xAC\x02" + "\x2A\x0D" + "\x0A\x0B" + "\x0A\x04loss" +
                            std::string("\x15\0\0\0\x3F", 5);
  REQUIRE(record.size() == 12 + event.size() + 4);
  CHECK(record.substr(0, 8) == std::string("\x1B\0\0\0\0\0\0\0", 8));  // 27 bytes
  CHECK(record.substr(12, event.size()) == event);
}

TEST_CASE("what is kept: whole records up to a step") {
  const auto first = first_event(5), one = scalars_event({6, 1, {{"loss", 1.0F}}}), two = scalars_event({7, 2, {{"loss", 2.0F}}});
  CHECK(events_up_to(first + one + two, 2) == first + one + two);
  CHECK(events_up_to(first + one + two, 1) == first + one);
  CHECK(events_up_to(first + one + two.substr(0, two.size() - 3), 2) == first + one);
  auto damaged = one;
  damaged[20] = static_cast<char>(damaged[20] ^ 1);
  CHECK(events_up_to(first + damaged + two, 2) == first);
  CHECK(events_up_to("no events", 2).empty());
}

TEST_CASE("a training writes one event a step, and goes on behind its checkpoint") {
  const TemporaryFolder folder;
  const auto metrics = folder / "run.tfevents", checkpoint = folder / "c";
  const auto run = std::string("run ") + kGpt + " --batch 4 --format json --metrics " + metrics;
  (void)result_of(rehearse(run + " --steps 3 --checkpoint " + checkpoint));
  const auto before = text_of(metrics);
  CHECK(events_up_to(before, 3) == before);
  CHECK(events_up_to(before, 2).size() < before.size());
  CHECK(before.find("samples_per_second") != std::string::npos);
  (void)result_of(rehearse(run + " --steps 2 --resume " + checkpoint));
  const auto after = text_of(metrics);
  CHECK(after.substr(0, before.size()) == before);
  CHECK(events_up_to(after, 5) == after);
  CHECK(events_up_to(after, 3) == before);
}
