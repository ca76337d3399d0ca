// Rates of flows that share links, reckoned by hand: progressive filling, flow by flow, without a clock beside it.
#include <map>

#include "sim/max_min_rates.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim;

namespace {

/// Devices in a row, and between neighbours as many wires of 1 B/s as `widths` says: link n is the way from device n to n + 1.
platforms::Platform row_of_wires(const std::vector<int>& widths) {
  auto platform = sample::chain(static_cast<int>(widths.size()) + 1);
  auto& intra = platform.nodes.front().intra;
  intra.bandwidth = BytesPerSecond(1);
  for (std::size_t w = 0; w < widths.size(); ++w) intra.wires[w].count = widths[w];
  return platform;
}

/// Flows over links of chosen widths, one after the other.
class Flows {
 public:
  explicit Flows(const std::vector<int>& widths) : routes_(row_of_wires(widths)), share_(routes_) {
    for (std::size_t w = 0; w < widths.size(); ++w) (void)routes_.between(static_cast<int>(w), static_cast<int>(w) + 1);
  }

  void start(Token token, const std::vector<std::uint32_t>& links, double bytes, double now = 0) {
    begin(token, links, bytes, nullptr, now);
  }
  /// `seconds` of a message that puts `loads` on its links.
  void start_known(Token token, const std::vector<std::uint32_t>& links, double seconds, const std::vector<double>& loads, double now = 0) {
    loads_.push_back(loads);
    begin(token, links, seconds, &loads_.back(), now);
  }
  /// Everything that ends before `until`, or all.
  void run(double until = 1e9) {
    for (double end = share_.next_end(now_); end >= 0 && end <= until; end = share_.next_end(now_)) {
      now_ = end;
      for (Token token = 0; share_.pop_end(now_, token);) ends[token] = now_;
    }
    now_ = until;
  }

  std::map<Token, double> ends;

 private:
  void begin(Token token, const std::vector<std::uint32_t>& links, double bytes, const std::vector<double>* loads, double now) {
    known_.push_back({links, 0, 0});
    share_.start({0, 0, &known_.back(), bytes, loads}, now, token);
  }

  Routes routes_;
  FairShare share_;
  double now_ = 0;
  std::deque<KnownRoute> known_;
  std::deque<std::vector<double>> loads_;
};

}  // namespace

TEST_CASE("three flows over two links: who is held back elsewhere leaves the rest to the others") {
  // Links of 1 and 2 B/s; flow 1 crosses the first, 2 both, 3 the second. The first link gives 1 and 2 half each, the second leaves 1.5
  // to 3. At 2 s the first two have their byte; 3 has 3 of 5 bytes and goes on at 2 B/s.
  Flows f({1, 2});
  f.start(1, {0}, 1);
  f.start(2, {0, 1}, 1);
  f.start(3, {1}, 5);
  f.run();
  CHECK(f.ends.at(1) == Approx(2));
  CHECK(f.ends.at(2) == Approx(2));
  CHECK(f.ends.at(3) == Approx(3));
}

TEST_CASE("four flows over three links are fixed from the narrowest link on") {
  // Links of 6, 3 and 4 B/s. Flow 1 crosses all, 2 and 3 the first, 4 the last. Link 0 has 2 for each of three, link 1 three for one, link
  // 2 two for each of two: link 0 and link 2 are full together, at 2 B/s each.
  Flows even({6, 3, 4});
  even.start(1, {0, 1, 2}, 2);
  even.start(2, {0}, 4);
  even.start(3, {0}, 8);
  even.start(4, {2}, 6);
  even.run();
  // 1 ends at 1 s. Then 2 and 3 have 3 B/s each: 2 has 2 bytes left, until 5/3 s. 3 has 6 - 2 = 4 left and 6 B/s: 7/3 s. 4 has 4 left at 4.
  CHECK(even.ends.at(1) == Approx(1));
  CHECK(even.ends.at(2) == Approx(1 + 2.0 / 3));
  CHECK(even.ends.at(3) == Approx(1 + 2.0 / 3 + 4.0 / 6));
  CHECK(even.ends.at(4) == Approx(2));
  // Links of 9, 1 and 4: the middle one holds flow 1 at 1 B/s. Link 2 then leaves 3 to flow 4, link 0 eight to flows 2 and 3.
  Flows narrow({9, 1, 4});
  narrow.start(1, {0, 1, 2}, 4);
  narrow.start(2, {0}, 8);
  narrow.start(3, {0}, 4);
  narrow.start(4, {2}, 6);
  narrow.run();
  // 3 ends at 1 s; 2 has 4 left and 8 B/s: 1.5 s. 4 ends at 2 s, 1 at 4 s.
  CHECK(narrow.ends.at(3) == Approx(1));
  CHECK(narrow.ends.at(2) == Approx(1.5));
  CHECK(narrow.ends.at(4) == Approx(2));
  CHECK(narrow.ends.at(1) == Approx(4));
}

TEST_CASE("a flow that begins later slows those that it meets, and nobody else") {
  // Two links of 2 B/s. Flow 1 of 4 bytes alone on the first; flow 2 of 4 bytes on the second is met by 3 at 1 s.
  Flows f({2, 2});
  f.start(1, {0}, 4);
  f.start(2, {1}, 4);
  f.run(1);
  CHECK(f.ends.empty());
  f.start(3, {1}, 1, 1);
  f.run();
  // 2 has 2 bytes left and 1 B/s while 3 sends its byte, until 2 s; then 1 byte at 2 B/s.
  CHECK(f.ends.at(1) == Approx(2));
  CHECK(f.ends.at(3) == Approx(2));
  CHECK(f.ends.at(2) == Approx(2.5));
}

TEST_CASE("what several flows leave behind is used again by later ones") {
  // Flows of 1, 2 and 3 bytes share 3 B/s: the first ends at 1 s, the second at 1 + 1/1.5, the last with 1 byte left at 3 B/s at 2 s.
  Flows f({3});
  for (const Token n : {1, 2, 3}) f.start(n, {0}, static_cast<double>(n));
  f.run();
  CHECK(f.ends.at(1) == Approx(1));
  CHECK(f.ends.at(2) == Approx(1 + 2.0 / 3));
  CHECK(f.ends.at(3) == Approx(2));
  f.run(10);
  for (const Token n : {4, 5}) f.start(n, {0}, 3, 10);
  f.run();
  CHECK(f.ends.at(4) == Approx(12));
  CHECK(f.ends.at(5) == Approx(12));
}

TEST_CASE("a message of known time loads its links unequally, and leaves others the rest") {
  // Message 1 takes 1 s and puts 2 B/s on a link of 3 and 1 B/s on one of 4; flow 2 shares the first link, flow 3 the second. Message 1 is
  // as quick as alone (the links have 1.5 and 2 for a load of 1), which leaves 1 B/s to flow 2 and 3 to flow 3.
  Flows f({3, 4});
  f.start_known(1, {0, 1}, 1, {2, 1});
  f.start(2, {0}, 2);
  f.start(3, {1}, 3);
  f.run();
  CHECK(f.ends.at(1) == Approx(1));
  CHECK(f.ends.at(3) == Approx(1));
  CHECK(f.ends.at(2) == Approx(1 + 1.0 / 3));  // then 3 B/s for the second byte
}

TEST_CASE("messages of known time that want more than a link has are slowed alike, whatever they load") {
  // On links of 2 and 6 B/s message 1 puts 3 and 1, message 2 puts 1 and 2: the first link has half of what both want. 1 ends at 2 s; 2 has
  // done one of its two seconds, and does the other at full speed.
  Flows both({2, 6});
  both.start_known(1, {0, 1}, 1, {3, 1});
  both.start_known(2, {0, 1}, 2, {1, 2});
  both.run();
  CHECK(both.ends.at(1) == Approx(2));
  CHECK(both.ends.at(2) == Approx(3));
  // Beside a flow: message 1 puts 2 B/s on a link of 1, so that it and flow 2 have a third each: a second of its time takes 3 s.
  Flows beside({1});
  beside.start_known(1, {0}, 1, {2});
  beside.start(2, {0}, 1);
  beside.run();
  CHECK(beside.ends.at(1) == Approx(3));
  CHECK(beside.ends.at(2) == Approx(3));
  // Two messages, one of which is held back elsewhere: on a link of 4 they put 2 each, on a link of 1 the second puts 2 more. It has half
  // of its speed, the first all of it, and flow 3 what they leave of the first link: 4 - 2 - 1 = 1.
  Flows three({4, 1});
  three.start_known(1, {0}, 1, {2});
  three.start_known(2, {0, 1}, 1, {2, 2});
  three.start(3, {0}, 1);
  three.run();
  CHECK(three.ends.at(1) == Approx(1));
  CHECK(three.ends.at(2) == Approx(2));
  CHECK(three.ends.at(3) == Approx(1));
}

TEST_CASE("nothing ends where nothing flows, and a flow of nothing is our own error") {
  Flows f({1});
  CHECK_NOTHROW(f.run());
  CHECK(f.ends.empty());
  CHECK_THROWS_WITH(f.start(1, {0}, 0), contains("a flow crosses links and has bytes"));
  CHECK_THROWS_WITH(f.start(1, {}, 1), contains("a flow crosses links and has bytes"));
}
