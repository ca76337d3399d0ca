#include "tests/exec/property/cases.hpp"

#include <algorithm>
#include <sstream>

#include "graph/narrow_type.hpp"
#include "plan/collectives/collective.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/schedules/schedule.hpp"
#include "tests/exec/property/models.hpp"

namespace rehearsal::property {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

/// What divides by the size of a gradient makes rounding of one that ought to be zero as large as any other: not with these eps.
std::string random_optimizer(Draws& d) {
  static const std::vector<std::string> kOptimizers{"sgd:lr=0.05",
                                                    "sgd:lr=0.05:momentum=0.9",
                                                    "sgd:lr=0.05:momentum=0.9:nesterov=1:weight_decay=0.01",
                                                    "adam:lr=0.01:eps=1e-4",
                                                    "adamw:lr=0.01:eps=1e-4",
                                                    "rmsprop:lr=0.01:momentum=0.5:eps=1e-4",
                                                    "adagrad:lr=0.05:eps=1e-2",
                                                    "lars:lr=0.5:momentum=0.9:trust=0.02",
                                                    "lamb:lr=0.01:weight_decay=0.01:eps=1e-4",
                                                    "novograd:lr=0.01:eps=1e-4"};
  auto text = d.one_of(kOptimizers);
  if (d.chance(0.3)) text += ":clip=0.1";
  return text;
}

std::string random_order(Draws& d) {
  std::vector<std::string> axes{"tp", "cp", "ep", "dp", "pp"};
  for (std::size_t n = axes.size() - 1; n > 0; --n)
    std::swap(axes[n], axes[static_cast<std::size_t>(d.between(0, static_cast<std::int64_t>(n)))]);
  std::string text;
  for (const auto& axis : axes) text += (text.empty() ? "" : ".") + axis;
  return text;
}

std::string random_all_reduce(Draws& d) {
  std::vector<std::string> names{"auto"};
  for (const auto& row : plan::collective_table())
    if (row.kind == plan::CollectiveKind::AllReduce) names.emplace_back(row.name);
  return d.one_of(names);
}

void add_schedule(Draws& d, std::int64_t stages, plan::Plan& p) {
  if (stages == 1) return;
  std::vector<std::string> names;
  for (const auto& row : plan::schedule_table()) names.emplace_back(row.name);
  p.schedule = d.one_of(names);
  if (p.schedule == "pipedream") p.micro_batch.reset();
  if (p.schedule == "pipedream-2bw" || p.schedule == "dualpipe") p.micro_batch = 1;
  if (plan::schedule(p.schedule).chunks == 0 || (p.schedule == "1f1b" && d.chance(0.3))) p.interleave = static_cast<int>(d.between(2, 3));
}

}  // namespace

std::string to_text(const Case& c) {
  return c.model + "/" + std::to_string(c.batch) + "/" + c.plan + "/" + c.optimizer + "/" + c.dtype + "/" + std::to_string(c.bucket_bytes);
}

Case parse_case(const std::string& text) {
  const auto fields = split(text, '/');
  return {fields.at(0), std::stoll(fields.at(1)), fields.at(2), fields.at(3), fields.at(4), std::stoll(fields.at(5))};
}

graph::TrainingGraph training_of(const Case& c) {
  graph::TrainingOptions options;
  options.loss = loss_of(c.model);
  const auto settings = split(c.optimizer, ':');
  options.optimizer.name = settings.front();
  for (std::size_t n = 1; n < settings.size(); ++n) {
    const auto pair = split(settings[n], '=');
    (pair.at(0) == "clip"         ? options.clip_norm
     : pair.at(0) == "clip_value" ? options.clip_value
                                  : options.optimizer.values[pair.at(0)]) = std::stod(pair.at(1));
  }
  auto model = graph::with_initial_values(build_model(c.model, c.batch));
  if (c.dtype == "f64") model = graph::with_float_type(model, DType::F64);
  if (c.dtype == "bf16" || c.dtype == "f16") model = graph::with_narrow_type(model, *dtype_from_name(c.dtype)).graph;
  return graph::build_training_graph(model, options);
}

exec::CpuBackend backend_of(const Case& c) { return exec::CpuBackend(c.dtype == "f64" ? "reference" : "auto"); }

plan::Program program_of(const Case& c, const graph::TrainingGraph& training) {
  plan::LoweringOptions options;
  options.bucket_bytes = c.bucket_bytes;
  return plan::lower(training, plan::parse_plan(c.plan), backend_of(c), options);
}

Case random_job(Draws& d) {
  Case c;
  c.model = random_model(d, d.between(1, 7));
  c.batch = d.between(1, 9);
  c.optimizer = random_optimizer(d);
  c.dtype = d.one_of<std::string>({"f64", "f64", "f64", "f64", "f64", "f64", "f32", "f32", "f32", "bf16"});
  // Sums of 16-bit parts that cancel are as wrong as the parts: what divides by their size shows nothing else.
  if (c.dtype == "bf16") c.optimizer = "sgd:lr=0.05:momentum=0.9";
  c.bucket_bytes = d.one_of<std::int64_t>({64, 400, 2000, 100'000});
  return c;
}

std::string random_plan(Draws& d, std::int64_t batch, int ranks) {
  using Form = plan::AttentionForm;
  plan::Plan p;
  const std::vector<int*> axes{&p.dp, &p.dp, &p.tp, &p.tp, &p.pp, &p.cp, &p.ep, &p.spatial[1], &p.spatial[2]};
  for (int left = ranks, factor = 2; left > 1;) {
    if (left % factor != 0) {
      ++factor;
      continue;
    }
    int* const axis = d.one_of(axes);
    *axis *= factor;
    if (axis == &p.ep) p.dp *= factor;  // experts are shared out among replicas
    left /= factor;
  }
  if (p.dp > 1) p.zero = static_cast<int>(d.between(0, 3));
  if (p.zero > 0 && p.dp == 4 && p.ep == 1 && d.chance(0.5)) p.zero_group = 2;
  if (p.tp > 1) p.sequence_parallel = d.chance(0.5);
  if (d.chance(0.5)) p.micro_batch = d.between(1, std::max<std::int64_t>(1, batch / p.dp));
  add_schedule(d, p.pp, p);
  p.overlap = d.chance(0.7);
  if (p.cp > 1) p.attention = d.one_of<Form>({Form::Gather, Form::AllToAll, Form::Ring, Form::Ring});
  if (d.chance(0.3)) p.bn = d.one_of<plan::BatchStatistics>({plan::BatchStatistics::Local, plan::BatchStatistics::Sync});
  if (plan::schedule(p.schedule).asynchronous) p.bn = plan::BatchStatistics::Batch;
  if (d.chance(0.3)) p.recompute = plan::parse_recompute(d.one_of<std::string>({"selective", "full", "3kB"}));
  if (d.chance(0.2)) p.fuse = plan::Fusion::None;
  if (d.chance(0.1)) p.offload = d.one_of<plan::Offload>({plan::Offload::Activations, plan::Offload::Optimizer});
  if (p.offload != plan::Offload::Activations && d.chance(0.15))
    p.compression = plan::parse_compression(d.one_of<std::string>({"gist", "gist-sparse:1"}));
  if (d.chance(0.5)) p.allreduce = random_all_reduce(d);
  if (d.chance(0.3)) p.order = random_order(d);
  return plan::to_text(p);
}

}  // namespace rehearsal::property
