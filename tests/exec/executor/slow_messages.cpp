// Messages that leave late, at random, change no bit of any loss: under every schedule, over several steps, on real ranks. Nor does it when
// a rank wants to stop: all of them do soon, behind the same step.
#include <vector>

#include "plan/schedules/schedule.hpp"
#include "tests/exec/executor/losses.hpp"

using rehearsal::exec::sample::Case;
using rehearsal::exec::sample::Losses;
using rehearsal::exec::sample::train;

namespace {

/// Every schedule, with a matrix that the first and the last stage share where that can be, then what else sends while it computes.
std::vector<Case> cases_of(int ranks) {
  std::vector<Case> cases;
  const auto stages = "pp=" + std::to_string(ranks);
  for (const auto& row : rehearsal::plan::schedule_table()) {
    const auto schedule = stages + ",schedule=" + std::string(row.name);
    if (row.name == "pipedream") {
      cases.push_back({"mlp", 8, schedule});
      continue;
    }
    const std::string chunks = row.chunks == 0 ? ",interleave=2" : "";
    // Parts of the model: as many as its operators can make, four stages twice included.
    for (const auto* micro_batch : {"1", "2"}) cases.push_back({"gpt", 8, schedule + ",micro_batch=" + micro_batch + chunks});
  }
  const std::vector<const char*> more = ranks == 2 ? std::vector{"dp=2,micro_batch=2",
                                                                 "dp=2,zero=3,micro_batch=2",
                                                                 "dp=2,zero=2,micro_batch=2",
                                                                 "tp=2,sequence_parallel=on",
                                                                 "cp=2,attention=ring,micro_batch=2",
                                                                 "dp=2,micro_batch=2,recompute=full,offload=optimizer"}
                                                   : std::vector{"dp=2,pp=2,micro_batch=1,schedule=pipedream-2bw",
                                                                 "dp=2,pp=2,micro_batch=1,schedule=pipedream-2bw,zero=3",
                                                                 "dp=2,pp=2,micro_batch=2,schedule=dualpipe,zero=2",
                                                                 "tp=2,pp=2,micro_batch=2,schedule=zb-v",
                                                                 "dp=2,tp=2,zero=3",
                                                                 "dp=2,pp=2,micro_batch=2,local_steps=1",
                                                                 "dp=2,pp=2,micro_batch=2,local_steps=2,outer=nesterov",
                                                                 "dp=2,pp=2,micro_batch=2,local_steps=1,outer=adasum"};
  for (const auto* plan : more) cases.push_back({"gpt", 8, plan});
  return cases;
}

}  // namespace

TEST_CASE("slow messages change no loss, whatever the schedule") {
  const int ranks = GENERATE(2, 4);
  const auto cases = cases_of(ranks);
  const auto quick = train(ranks, cases, "-", 8);
  for (const auto* seed : {"1", "2"}) {
    const auto slow = train(ranks, cases, std::string("slow:") + seed, 8);
    for (const auto& c : cases) {
      INFO(to_text(c) << ", seed " << seed);
      CHECK(quick.at(to_text(c)).size() == 8);
      CHECK(slow.at(to_text(c)) == quick.at(to_text(c)));
    }
  }
}

TEST_CASE("a rank that wants to stop stops all behind the same step, in the middle of a row, too") {
  const int ranks = GENERATE(2, 4);
  const auto stages = "pp=" + std::to_string(ranks);
  const std::vector<Case> rows{{"gpt", 8, stages + ",micro_batch=1,schedule=pipedream-2bw"},
                               {"gpt", 8, stages + ",micro_batch=2,schedule=pipedream-2bw"},
                               {"mlp", 8, stages + ",schedule=pipedream"}};
  const std::vector<Case> single{{"gpt", 8, stages + ",micro_batch=2"}, {"gpt", 8, "dp=" + std::to_string(ranks)}};
  const auto whole = train(ranks, rows, "-", 40), whole_single = train(ranks, single, "-", 40);
  const auto check = [&](const Losses& found, const Losses& all, std::size_t most) {
    CHECK(found.size() >= 3);
    CHECK(found.size() <= most);
    CHECK(Losses(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(found.size())) == found);
  };
  for (const int rank : {0, ranks - 1}) {
    // Asked before every step of a row; otherwise before the first step, and behind each.
    const auto stopped = train(ranks, rows, "stop:" + std::to_string(rank) + ":5", 40);
    // How far the first stage runs ahead, the others are ahead of it, and the news is on its way: up to three times the stages.
    for (const auto& c : rows) check(stopped.at(to_text(c)), whole.at(to_text(c)), 6 + 3 * static_cast<std::size_t>(ranks));
    const auto stopped_single = train(ranks, single, "stop:" + std::to_string(rank) + ":5", 40);
    for (const auto& c : single) check(stopped_single.at(to_text(c)), whole_single.at(to_text(c)), 5);
  }
}
