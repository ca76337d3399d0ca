// Losses do not depend on the plan: a plan or two of every axis, in a few seconds. plans_agree has many more.
#include "tests/exec/executor/losses.hpp"

using rehearsal::exec::sample::check_agreement;

TEST_CASE("plans of two ranks give the losses of one") {
  check_agreement(2, {
                         {"mlp", 7, "dp=2,micro_batch=2"},  // 2 2 and 2 1
                         {"mlp", 8, "dp=2,shares=3:1"},
                         {"cnn", 5, "dp=2,zero=1"},
                         {"cnn", 6, "spatial=2"},
                         {"cnn", 8, "tp=2"},
                         {"mlp", 7, "pp=2,micro_batch=2,schedule=interleaved,interleave=2"},
                         {"gpt", 3, "pp=2,micro_batch=2,schedule=zb-h1"},  // the embedding's matrix is the last product's, too
                         {"gpt", 4, "pp=2,micro_batch=2,schedule=dualpipe"},
                         {"mlp", 7, "pp=2,micro_batch=2,schedule=zb-v"},
                         {"gpt", 4, "tp=2,sequence_parallel=on,recompute=selective"},
                         {"gpt", 4, "cp=2,attention=all-to-all"},
                         {"gpt", 3, "cp=2,attention=ring,recompute=full"},
                         {"encoder", 3, "cp=2,attention=ring"},
                         {"gpt", 4, "dp=2,zero=3,micro_batch=1,offload=activations"},
                         {"latent", 4, "dp=2,ep=2"},
                         {"adapted", 4, "dp=2,zero=2"},
                     });
}

TEST_CASE("plans of four ranks give the losses of one") {
  check_agreement(4, {
                         {"cnn", 6, "dp=4"},  // 2 2 1 1
                         {"cnn", 6, "spatial=2x2"},
                         {"cnn", 6, "dp=2,spatial=2"},
                         {"gpt", 4, "dp=2,pp=2,micro_batch=1,zero=2"},
                         {"gpt", 4, "dp=2,tp=2,zero=3,allreduce=halving-doubling"},
                         {"gpt", 4, "tp=2,cp=2,attention=ring"},
                         {"moe", 8, "dp=4,ep=2,zero=1,micro_batch=1"},
                         {"moe", 4, "dp=2,pp=2,ep=2,micro_batch=1"},
                     });
}
