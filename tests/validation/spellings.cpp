// What authors write in records: stages of ZeRO, recomputation, arithmetic, names with sizes, and words for "nothing is known".

#include <cmath>
#include <sstream>

#include "tests/catch.hpp"
#include "validation/known_models.hpp"
#include "validation/record_job.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {
namespace {

Record record(const std::string& model, const std::string& plan, const std::string& gpu = "H100-SXM5-80GB", int count = 8,
              const std::string& measured = R"({"iteration_time_s": null})") {
  std::istringstream in(R"({"id": "r", "source": "s", "model": )" + model + R"(, "hardware": {"gpu": ")" + gpu + R"(", "count": )" +
                        std::to_string(count) + R"(, "gpus_per_node": 8}, "plan": )" + plan + R"(, "measured": )" + measured + "}");
  return read_records(in, "records.jsonl").records.front();
}

const std::string kGpt = R"({"name": "GPT", "layers": 4, "hidden": 256, "heads": 4, "seq": 128, "vocab": 1000})";

RecordJob job_with(const std::string& key, const std::string& value) {
  return job_of(record(kGpt, R"({"dp": 8, "global_batch": 8, ")" + key + "\": " + value + "}"));
}

Verdict judged(const Record& r) {
  Progress silent;
  return validate(std::span(&r, 1), costmodel::published_constants(), {}, silent).front();
}

TEST_CASE("stages of ZeRO and strategies of FSDP are read in every spelling") {
  const auto zero = [](const char* value) { return job_with("zero", value).plan.zero; };
  CHECK(zero("2") == 2);
  CHECK(zero(R"("stage 2")") == 2);
  CHECK(zero(R"("ZeRO-3")") == 3);
  CHECK(zero(R"("Infinity")") == 3);
  CHECK(zero(R"("none")") == 0);
  CHECK(zero(R"("not stated")") == 0);
  const auto sharded = [](const char* value) { return job_with("sharding", value).plan.zero; };
  CHECK(sharded(R"("FULL_SHARD")") == 3);
  CHECK(sharded(R"("SHARD_GRAD_OP")") == 3);
  CHECK(sharded(R"("NO_SHARD")") == 0);
  const auto hybrid = [](int devices) {
    const auto plan = R"({"dp": )" + std::to_string(devices) + R"(, "global_batch": 16, "sharding": "HYBRID_SHARD"})";
    return job_of(record(kGpt, plan, "H100-SXM5-80GB", devices)).plan;
  };
  CHECK(hybrid(16).zero == 3);
  CHECK(hybrid(16).zero_group == 8);  // the devices of a node
  CHECK(hybrid(8).zero_group == 0);   // which are all
}

TEST_CASE("SGD has a momentum where its author writes one, or nothing at all") {
  const auto momentum = [](const char* value) { return job_with("optimizer", value).recipe.momentum; };
  CHECK(!momentum(R"("sgd")"));
  CHECK(!momentum(R"("RMSprop 12 B/param")"));
  CHECK(momentum(R"("SGD with momentum 0.9")"));
  CHECK(momentum(R"("sgd, nesterov")"));
  CHECK(momentum("null"));
}

TEST_CASE("recomputation and sequence parallelism are read as words, too") {
  using plan::RecomputeRule;
  const auto recompute = [](const char* value) { return job_with("recompute", value).plan.recompute.rule; };
  CHECK(recompute(R"("full")") == RecomputeRule::Full);
  CHECK(recompute(R"("activation checkpointing")") == RecomputeRule::Full);
  CHECK(recompute("true") == RecomputeRule::Full);
  CHECK(recompute(R"("core-attn")") == RecomputeRule::Selective);
  CHECK(recompute(R"("selective-op")") == RecomputeRule::SelectiveOps);
  CHECK(recompute("false") == RecomputeRule::None);
  CHECK(recompute(R"("none")") == RecomputeRule::None);
  CHECK(job_with("seq_parallel", R"("yes")").plan.sequence_parallel == false);  // text is no number, and the framework's default holds
}

TEST_CASE("records say of how many layers activations are computed again") {
  const auto of = [](const std::string& plan) { return plan::to_text(job_of(record(kGpt, plan, "H100-SXM5-80GB", 8)).plan.recompute); };
  CHECK(of(R"({"dp": 8, "global_batch": 16, "recompute": "block", "recompute_num_layers": 5})") == "full:5");
  CHECK(of(R"({"dp": 8, "global_batch": 16, "recompute": "block"})") == "full");
  CHECK(of(R"({"dp": 8, "global_batch": 16, "recompute": "uniform", "recompute_num_layers": 2})") == "full");
  const auto layers =
      static_cast<int>(job_of(record(kGpt, R"({"dp": 8, "global_batch": 16})", "H100-SXM5-80GB", 8)).model.values.at("layers"));
  const auto half = [&](int parts) { return "full:" + std::to_string(layers / parts / 2); };
  CHECK(of(R"({"dp": 8, "global_batch": 16, "recompute": "alternate-layers"})") == half(1));
  CHECK(of(R"({"dp": 4, "pp": 2, "global_batch": 16, "recompute": "alternate-layers"})") == half(2));
}

TEST_CASE("arithmetic is read in every spelling, and refused where nobody trains in it") {
  const auto precision = [](const char* value) { return job_with("precision", value).precision; };
  using costmodel::Arithmetic;
  CHECK(precision(R"("BF16")").arithmetic == Arithmetic::Half);
  CHECK(precision(R"("half")").arithmetic == Arithmetic::Half);
  CHECK(precision(R"("16-mixed")").autocast);
  CHECK(precision(R"("fp8-cs")").arithmetic == Arithmetic::Fp8);
  CHECK_THROWS_WITH(precision(R"("mxfp8")"), contains("H100-SXM5-80GB") && contains("mxfp8"));
  CHECK_THROWS_WITH(precision(R"("nvfp4")"), contains("H100-SXM5-80GB has no products in fp4"));
  CHECK(precision(R"("float32")").arithmetic == Arithmetic::F32);
  CHECK(precision(R"("not stated")").arithmetic == Arithmetic::Half);  // decoders are trained in 16 bits
  CHECK_THROWS_WITH(precision(R"("fp64")"), contains("plan.precision"));
  CHECK_THROWS_WITH(precision(R"("int8")"), contains("plan.precision"));
  CHECK_THROWS_WITH(precision(R"("bf99")"), contains("plan.precision: 'bf99' is none of fp32"));
}

TEST_CASE("every word of an arithmetic is known, and one names a type that products are computed in") {
  const auto precision = [](const std::string& text) { return job_with("precision", "\"" + text + "\"").precision; };
  using costmodel::Arithmetic;
  for (const char* text : {"bf16", "fp16", "amp", "amp_bf16", "amp O2", "16-mixed", "bfloat16", "nf4-base + bf16", "bf16 mixed precision",
                           "bf16 (master weights in fp32)"}) {
    INFO(text);
    CHECK(precision(text).arithmetic == Arithmetic::Half);
  }
  CHECK(precision("bfloat16").brain);
  for (const char* text : {"fp8", "fp8-rowwise", "fp8-tensorwise", "amp_fp8", "fp8 (e4m3)", "FP8 hybrid"}) {
    INFO(text);
    CHECK(precision(text).arithmetic == Arithmetic::Fp8);
  }
  for (const char* text : {"bf8", "fp128", "xfp16", "8", "4", "e4m3", "nf4", "banana"}) {
    INFO(text);
    CHECK_THROWS_WITH(precision(text), contains("plan.precision: '" + std::string(text) + "' is none of fp32, tf32, fp16, bf16"));
  }
  CHECK_THROWS_WITH(precision("fp8-banana"), contains("plan.precision: 'banana' of 'fp8-banana' is none of fp32"));
  CHECK_THROWS_WITH(precision("bf16 banana"), contains("plan.precision: 'banana' of 'bf16 banana' is none of fp32"));
  for (const char* text : {"int8-mixed", "int8-weight-only", "int4 + bf16"}) {
    INFO(text);
    CHECK_THROWS_WITH(precision(text), contains("of '" + std::string(text) + "': neither weights nor products in integers are predicted"));
  }
}

TEST_CASE("words that say nothing are as good as null") {
  const auto r = record(R"({"name": "resnet50"})", R"({"global_batch": 64, "precision": "Not stated", "framework": "n/a"})", "unknown");
  CHECK(r.plan.text("precision").empty());
  CHECK(r.plan.text("framework").empty());
  CHECK(judged(r).refused == "hardware.gpu: is missing");
}

TEST_CASE("a decoder that only its size is known of has the usual shape of that size") {
  // 7.5 billions: nearest of the table by ratio is 6.7 (32 layers of 4096): 32 * 7.5 / 6.7 = 35.8.
  const auto shape = shape_of_size("our-gpt-7.5b", 0);
  REQUIRE(shape);
  CHECK(shape->hidden == 4096);
  CHECK(shape->layers == 36);
  CHECK(shape_of_size("gpt", 175e9)->layers == 96);
  CHECK(!shape_of_size("gpt-neox", 0));
  CHECK(known_shape("gpt-2")->layers == 12);
  CHECK(known_shape("gpt-2-1.5b")->layers == 48);
  CHECK(known_shape("gpt2-xl")->layers == 48);
  CHECK(known_shape("gpt-2-xl")->layers == 48);
  CHECK(known_shape("llama-33b")->layers == 60);
  CHECK(!known_shape("llama-3-3b"));
  CHECK(!known_shape("deberta-base"));
  const auto job = job_of(record(R"({"name": "GPT-22B"})", R"({"dp": 8, "global_batch": 8, "zero": 3})"));
  CHECK(job.model.shape_assumed);
  const auto width = [](const std::string& model) {
    const auto v = judged(record(model, R"({"dp": 8, "global_batch": 8, "zero": 3})")).predicted.at("iteration_time_s");
    return std::log(v.high / v.value);
  };
  CHECK(width(R"({"name": "GPT-22B"})") ==
        Approx(1.3 * width(R"({"name": "GPT", "layers": 48, "hidden": 6144, "heads": 64, "seq": 2048})")));
}

TEST_CASE("names that hold another network's name are not taken for it") {
  for (const char* name : {"FCN-ResNet50", "deeplab_v3_resnet101", "SSD-VGG16", "ssd_mobilenet", "PNASNet", "MnasNet", "DeBERTa-base"}) {
    INFO(name);
    CHECK_THAT(judged(record(std::string(R"({"name": ")") + name + "\"}", R"({"dp": 8, "global_batch": 64})")).refused, contains("model."));
  }
  for (const char* name : {"SSD", "ssd300", "RegNetY-16GF", "ConvNeXt-L", "Swin-L", "U-Net_Medical", "gnmt_v2", "TransformerXL-large",
                           "T5-3B", "flan-t5-xl", "transformer_base", "bert", "GPT-2", "OPT-125m", "Mixtral-8x22b"}) {
    INFO(name);
    CHECK(model_of(record(std::string(R"({"name": ")") + name + "\"}", "{}")).zoo.size() > 1);
  }
  CHECK(model_of(record(R"({"name": "T5-3B"})", "{}")).values.at("ffn") == 16384);
  CHECK(model_of(record(R"({"name": "transformer_base"})", "{}")).values.at("hidden") == 512);
  CHECK(model_of(record(R"({"name": "RegNetY-16GF"})", "{}")).zoo == "regnety_160");
}

TEST_CASE("how torchao's recipes gather is read in any spelling") {
  const auto gathered = [](const std::string& said) {
    return job_of(record(kGpt, R"({"dp": 8, "global_batch": 8, "zero": 3, "precision": "fp8", "quantisation": ")" + said + "\"}"))
        .recipe.fp8_gather;
  };
  CHECK(gathered("tensorwise with float8 all-gather") == true);
  CHECK(gathered("tensorwise with fp8 all-gather") == true);
  CHECK(gathered("rowwise with bfloat16 all-gather") == false);
  CHECK(gathered("tensorwise, no float8 all-gather") == false);
  CHECK(!gathered("tensorwise"));
  CHECK(!gathered(""));
}

TEST_CASE("that SGD has a momentum is read in any spelling") {
  const auto keeps = [](const std::string& optimizer) {
    return job_of(record(kGpt, R"({"dp": 8, "global_batch": 8, "optimizer": ")" + optimizer + "\"}")).recipe.momentum;
  };
  for (const char* with : {"sgdm", "sgd-m", "sgd with momentum", "nag", "nesterov", "adam"}) CHECK(keeps(with));
  for (const char* without : {"sgd", "rmsprop"}) CHECK(!keeps(without));
}

TEST_CASE("recurrent translators compute the padding of their batches, and count tokens without it") {
  // 26 and 28 tokens in batches of which eight tenths are tokens: 32.5 and 35 time steps for 54 tokens.
  const auto model = model_of(record(R"({"name": "gnmt_v2"})", "{}"));
  CHECK(model.values.at("enc_seq") == 33);
  CHECK(model.values.at("dec_seq") == 35);
  CHECK(model.seq == 54);
}

TEST_CASE("replicas are counted with or without those that experts are spread over") {
  const auto dp = [](const char* plan) { return job_of(record(kGpt, plan)).plan.dp; };
  CHECK(dp(R"({"dp": 8, "ep": 4, "global_batch": 8})") == 8);
  CHECK(dp(R"({"dp": 2, "ep": 4, "global_batch": 8})") == 8);
  CHECK_THROWS_WITH(dp(R"({"dp": 2, "ep": 2, "global_batch": 8})"), contains("plan.dp"));
}

TEST_CASE("ranks that experts are spread over divide the experts, and the devices") {
  const auto refused = [](const std::string& plan) {
    return judged(record(R"({"name": "Qwen3_30B_a3B", "seq": 128})", "{" + plan + R"(, "global_batch": 16})", "H100-SXM5-80GB", 16))
        .refused;
  };
  for (int ep : {1, 2, 4, 8, 16}) CHECK(refused(R"("dp": 16, "ep": )" + std::to_string(ep)).empty());
  CHECK(refused(R"("dp": 8, "tp": 2, "ep": 16)").empty());  // ranks that split products hold whole experts, too
  for (int ep : {3, 5, 7, 24, 256})
    CHECK(refused(R"("dp": 16, "ep": )" + std::to_string(ep)) == "plan.ep: " + std::to_string(ep) + " ranks do not divide 128 experts");
  CHECK(refused(R"("dp": 16, "ep": 32)") == "plan.ep: 32 ranks do not divide hardware.count, which is 16");
  CHECK(refused(R"("dp": 8, "pp": 2, "ep": 16)").empty());  // as in a published table: more than a part of the pipeline has
}

TEST_CASE("minutes to a target follow from epochs where the data set of a model is known") {
  std::istringstream in(R"({"id": "r", "source": "mlcommons/training_results_v0.7", "model": {"name": "transformer-big"}, "hardware": )"
                        R"({"gpu": "A100-SXM4-40GB", "count": 8}, "plan": {"dp": 8, "global_batch": 110592, "precision": "amp"}, )"
                        R"("measured": {"minutes": null, "epochs": 2, "samples_per_s": null}})");
  const auto v = judged(read_records(in, "records.jsonl").records.front());
  // 4,590,101 sentences of WMT 17 an epoch, 6 % of the time for evaluation.
  CHECK(v.predicted.at("minutes").value == Approx(2 * 4590101 / v.predicted.at("samples_per_s").value * 1.06 / 60));
}

TEST_CASE("chunks are micro-batches also where one device has the whole pipeline, and figures of all devices are summed over the stages") {
  const std::string unet = R"~({"name": "torchgpipe U-Net (B=1,C=16)"})~";
  const auto staged = [&](int stages) {
    return record(unet,
                  R"({"framework": "torchgpipe", "chunks": 4, "global_batch": 8, "precision": "fp32", "optimizer": "sgd", "recompute": )"
                  R"("full", "pp": )" +
                      std::to_string(stages) + "}",
                  "Tesla P40 24GB", stages, R"({"param_opt_memory_gib": null})");
  };
  CHECK(job_of(staged(1)).micro_batch == 2);
  const auto states = [&](int stages) { return judged(staged(stages)).predicted.at("param_opt_memory_gib").value; };
  // Weights and gradients, wherever the stages are cut: no stage has a copy of another's.
  CHECK(states(4) == Approx(states(1)));
}

TEST_CASE("a replica's batch is cut into micro-batches by tokens where nothing says how") {
  // 8192 tokens: 16 sequences of 512, four of 2048.
  const auto micro = [](const char* seq) {
    return job_of(record(std::string(R"({"name": "GPT", "layers": 2, "hidden": 256, "heads": 4, "seq": )") + seq + "}",
                         R"({"dp": 8, "global_batch": 512})"))
        .micro_batch;
  };
  CHECK(micro("512") == 16);
  CHECK(micro("2048") == 4);
}

}  // namespace
}  // namespace rehearsal::validation
