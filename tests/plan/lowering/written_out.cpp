// Programs written out, to be read: what small models become under plans of every kind, line by line. A change to lowering shows here as
// a change of these files, which REHEARSAL_WRITE_OUT=1 writes anew; whoever makes it reads the difference (docs/testing.md).
#include "tests/catch.hpp"
#include "tests/plan/lowering/written_program.hpp"

using rehearsal::plan::test::check_written_program;
using rehearsal::plan::test::WrittenPlan;

TEST_CASE("Programs of replicas are those that are written out") {
  check_written_program(GENERATE(values<WrittenPlan>({
      {"data", "layers", "dp=2,micro_batch=2"},
      {"shares", "layers", "dp=2,shares=3:1,overlap=off"},
      {"sharded", "convolutions", "dp=2,zero=3"},
      {"groups", "layers", "dp=4,zero=3,zero_group=2,recompute=full"},
      {"unfused", "gpt", "dp=2,fuse=none"},
      {"experts", "experts", "dp=2,ep=2"},
      {"compressed", "layers", "dp=2,compression=powersgd:2"},
      {"outer", "layers", "dp=2,local_steps=2,outer=nesterov"},
      {"center", "layers", "dp=2,local_steps=2,staleness=0,outer=elastic"},
      {"servers", "layers", "dp=3,local_steps=1,staleness=1,servers=at:0+2"},
      {"average", "convolutions", "dp=2,local_steps=2,exact_steps=1,bn=local"},
      {"gossip", "layers", "dp=3,local_steps=1,outer=gossip"},
      {"state", "layers", "dp=3,zero=1", "adam"},
      {"gradients", "layers", "dp=3,zero=2,micro_batch=1"},
      {"buckets", "layers", "dp=2,micro_batch=3", "buckets"},
      {"gradient-buckets", "layers", "dp=2,zero=2,micro_batch=2", "buckets"},
      {"parameter-buckets", "layers", "dp=2,zero=3", "buckets"},
      {"gradients-in-formats", "convolutions", "dp=2,zero=2,bn=local", "choosy"},
      {"gradients-turned", "turned", "dp=2,zero=2"},
      {"unwanted", "unwanted", "dp=2,micro_batch=1,recompute=full"},
      {"normalized", "normalized", "dp=2,micro_batch=1"},
      {"synchronous", "convolutions", "dp=2,micro_batch=1,bn=sync"},
      {"stepwise", "layers", "dp=2,zero=3,micro_batch=1,offload=activations"},
  })));
}

TEST_CASE("Programs whose tensors are split are those that are written out") {
  check_written_program(GENERATE(values<WrittenPlan>({
      {"spatial", "convolutions", "spatial=2"},
      {"resized", "resizing", "spatial=2"},
      {"resized-both", "resizing", "spatial=2x2"},
      {"masked", "masked", "tp=2"},
      {"masked-context", "masked", "cp=2"},
      {"channels", "convolutions", "tp=2"},
      {"tensor", "gpt", "tp=2,sequence_parallel=on,dp=2,zero=1"},
      {"vocabulary", "gpt", "tp=2,recompute=selective"},
      {"ring", "gpt", "cp=2,attention=ring,recompute=full"},
      {"heads", "gpt", "cp=2,attention=all-to-all"},
      {"adaptive", "layers", "dp=2,tp=2,local_steps=1,outer=adasum"},
      {"averages", "averages", "spatial=2x1"},
      {"averages-three", "averages", "spatial=3"},
      {"ring-three", "attention", "cp=3,attention=ring"},
      {"ring-apart", "attention", "cp=2,attention=ring,overlap=off,micro_batch=1"},
      {"context-shards", "attention", "dp=2,cp=2,zero=3,micro_batch=1", "alone"},
      {"heads-split", "many-heads", "tp=2,cp=2,attention=all-to-all,sequence_parallel=on", "alone"},
      {"experts-split", "experts", "dp=2,ep=2,tp=2,sequence_parallel=on", "alone"},
      {"fused", "attention", "dp=2,cp=2", "fused"},
      {"fused-again", "attention", "micro_batch=1,recompute=full", "fused"},
  })));
}

TEST_CASE("Programs of pipelines are those that are written out") {
  check_written_program(GENERATE(values<WrittenPlan>({
      {"interleaved", "layers", "pp=2,micro_batch=4,schedule=interleaved,interleave=2"},
      {"zero-bubble", "gpt", "pp=2,micro_batch=1,schedule=zb-h1,offload=activations"},
      {"both-ways", "gpt", "pp=2,micro_batch=2,schedule=dualpipe"},
      {"asynchronous", "layers", "pp=2,micro_batch=3,schedule=pipedream-2bw"},
      {"stages-in-flight", "layers", "pp=3,schedule=pipedream"},
      {"one-bit", "layers", "dp=2,pp=2,compression=1bit"},
      {"breadth", "layers", "dp=2,pp=2,micro_batch=1,schedule=breadth-first,interleave=2,zero=2"},
      {"there-and-back", "layers", "pp=2,micro_batch=2,schedule=zb-v,recompute=full"},
      {"both-ways-back", "layers", "dp=2,pp=2,micro_batch=1,schedule=dualpipe-v,overlap=off"},
      {"both-ways-apart", "layers", "dp=2,pp=2,micro_batch=1,schedule=dualpipe,overlap=off"},
      {"both-ways-sequences", "gpt", "pp=2,tp=2,micro_batch=2,schedule=dualpipe,sequence_parallel=on", "alone"},
      {"residual", "residual", "pp=4,micro_batch=2"},
      {"residual-cut", "residual", "pp=4,micro_batch=2,cuts=a|b|last"},
      {"residual-interleaved", "residual", "pp=2,micro_batch=2,schedule=interleaved,interleave=2"},
      {"residual-late", "residual", "pp=2,micro_batch=3,schedule=zb-h1"},
      {"inside-out", "layers", "dp=2,pp=2,tp=2,order=pp.dp.tp.cp.ep", "alone"},
      {"tied", "tied", "pp=3,micro_batch=2", "clipped"},
      {"tied-both-ways", "tied", "pp=2,micro_batch=1,schedule=dualpipe", "alone"},
      {"turned-in-flight", "turned", "pp=2,micro_batch=2,schedule=pipedream-2bw"},
      {"tied-in-flight", "tied", "pp=2,micro_batch=2,schedule=pipedream-2bw"},
  })));
}

TEST_CASE("Programs of optimizers and of what is kept or sent in fewer bytes are those that are written out") {
  check_written_program(GENERATE(values<WrittenPlan>({
      {"offloaded", "layers", "offload=optimizer,micro_batch=3", "adam"},
      {"offloaded-shards", "layers", "dp=2,zero=1,offload=optimizer", "adam"},
      {"narrow", "layers", "dp=2,compression=bf16,micro_batch=1"},
      {"signs", "convolutions", "compression=gist-sparse:0.5"},
      {"rounded", "layers", "compression=gist-f16,recompute=selective"},
      {"blocks-of-sums", "layers", "dp=2,compression=sparcml:0.5,exact_steps=2"},
      {"moments", "layers", "dp=2,compression=1bit-adam,exact_steps=3", "adam"},
      {"factors", "layers", "dp=3,decompositions=spread", "kfac"},
      {"roots-sharded", "layers", "dp=2,zero=1,decompositions=spread", "shampoo alone"},
      {"roots-split", "layers", "dp=2,tp=2,decompositions=spread", "shampoo alone"},
      {"roots", "layers", "dp=2,decompositions=spread", "shampoo"},
  })));
}

TEST_CASE("Programs of kernels that want formats and memory of their own are those that are written out") {
  check_written_program(GENERATE(values<WrittenPlan>({
      {"channels-last", "convolutions", "dp=2", "choosy"},
      {"channels-last-stages", "convolutions", "pp=2,recompute=full", "choosy"},
      {"channels-last-offloaded", "convolutions", "offload=activations", "choosy"},
      {"channels-last-both-ways", "convolutions", "pp=2,tp=2,micro_batch=3,schedule=dualpipe,bn=local", "choosy alone"},
      {"channels-last-signs", "convolutions", "compression=gist", "choosy"},
      {"channels-last-micro-batches", "convolutions", "micro_batch=3,bn=local", "choosy"},
  })));
}
