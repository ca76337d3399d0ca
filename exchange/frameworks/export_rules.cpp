#include "exchange/frameworks/export_rules.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "plan/batch_shares.hpp"
#include "plan/plan_keys.hpp"
#include "plan/schedules/model_chunks.hpp"

namespace rehearsal::exchange {

double TrainingJob::optimizer_value(std::string_view name) const {
  const auto found = optimizer.values.find(std::string(name));
  return found == optimizer.values.end() ? 0 : found->second;
}

std::string nested_json(const Sheet& sheet) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const auto& [key, value] : sheet.settings()) {
    std::string pointer = "/" + key;
    std::ranges::replace(pointer, '.', '/');
    document[nlohmann::ordered_json::json_pointer(pointer)] = nlohmann::ordered_json::parse(value);
  }
  return document.dump(2) + "\n";
}

bool offloads_alone(const TrainingJob& job) {
  return job.plan.offload == plan::Offload::Optimizer && job.plan.zero == 0 && job.plan.dp * job.plan.cp == 1;
}

void ExportRule::apply(const TrainingJob& job, Sheet& sheet) const {
  if (write != nullptr)
    write(job, sheet);
  else if (plan::is_set(*plan::find_plan_key(key), job.plan))
    sheet.refuse(key, std::string(problem), std::string(remedy));
}

void equal_shares(const TrainingJob& job, Sheet& sheet) {
  if (plan::has_uneven_shares(job.batch, job.plan)) sheet.refuse("shares", "it gives every replica as many samples", "use shares=equal");
}

void launched_in_order(const TrainingJob& job, Sheet& sheet) {
  const auto* key = plan::find_plan_key("fill");
  if (plan::is_set(*key, job.plan))
    sheet.leave_to_program("fill", "its launcher numbers ranks node by node in the order of its hosts",
                           "leave it out, and list the hosts of " + key->print(job.plan) + " first");
}

void no_compression(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.compression != plan::Compression{})
    sheet.refuse("compression", "it has no " + to_text(job.plan.compression), "use compression=none");
}

void usual_order(const TrainingJob& job, Sheet& sheet) {
  const auto* key = plan::find_plan_key("order");
  if (job.plan.ranks() > 1 && job.plan.order != plan::Plan{}.order)
    sheet.refuse("order", "it numbers ranks as " + plan::Plan{}.order + ", not as " + key->print(job.plan), "leave it out");
}

void cross_entropy(const TrainingJob& job, Sheet& sheet) {
  if (!job.loss.empty() && job.loss != "cross-entropy")
    sheet.refuse("loss", "its training of decoders takes cross-entropy, not " + job.loss, "leave --loss out");
}

void always_overlaps(const TrainingJob& job, Sheet& sheet) {
  if (!job.plan.overlap && job.plan.ranks() > 1)
    sheet.refuse("overlap", "it always sums gradients beside the backward pass", "leave it out");
}

void fusion_of_program(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.fuse != plan::Fusion::Attention)
    sheet.leave_to_program("fuse", "the program's model says which kernels it uses", "leave it out");
}

void nothing(const TrainingJob& /*job*/, Sheet& /*sheet*/) {}

std::span<const FrameworkRow> framework_rows() {
  static const std::array kRows{megatron_core_row(), torchtitan_row(), deepspeed_row(), fsdp2_row()};
  return kRows;
}

namespace {

void check_sizes(const TrainingJob& job) {
  if (job.batch < 1) throw WrongUsage("--batch", "is needed: the global samples of one optimizer step");
  if (job.batch % job.plan.dp != 0)
    throw Refusal("dp: " + std::to_string(job.plan.dp) + " replicas do not divide a batch of " + std::to_string(job.batch));
  if (job.micro_batch() > job.replica_batch() || job.replica_batch() % job.micro_batch() != 0)
    throw Refusal("micro_batch: " + std::to_string(job.micro_batch()) + " samples do not divide the " +
                  std::to_string(job.replica_batch()) + " of a replica");
  if (!job.plan.searched.empty())
    throw Refusal(job.plan.searched.front() + "=auto: is still to be searched; export what `rehearse search -o plan.json` found");
  if (job.plan.pp > 1) return;  // what a framework has of schedules is its own to say
  for (const auto& v : plan::schedule_violations(job.plan, 1)) throw Refusal(v.key + ": " + v.problem + "; " + v.remedy);
}

}  // namespace

std::string exported(std::string_view framework, const TrainingJob& job) {
  const auto name = known_name("--for", framework, names_of_rows(framework_rows(), &FrameworkRow::name));
  const auto& row = *std::ranges::find(framework_rows(), name, &FrameworkRow::name);
  check_sizes(job);
  Sheet sheet;
  for (const auto& rule : row.rules) rule.apply(job, sheet);
  auto refusals = sheet.refusals();
  refusals.insert(refusals.end(), sheet.left_to_program().begin(), sheet.left_to_program().end());
  if (refusals.empty()) return row.text(sheet);
  throw Refusal(std::string(row.release) + " cannot do this:\n" +
                joined(refusals, "\n", [](const plan::Violation& v) { return v.key + ": " + v.problem + "; " + v.remedy; }));
}

PlanRules::PlanRules(std::string_view profile, TrainingJob job) : job_(std::move(job)) {
  if (profile.empty()) return;
  for (const auto& row : framework_rows())
    if (std::ranges::find(row.profiles, profile) != row.profiles.end()) row_ = &row;
  if (row_ == nullptr) return;
  const auto sheet = written(plan::Plan{});
  for (const auto& refusal : sheet.refusals()) always_.push_back(refusal.key);
}

Sheet PlanRules::written(const plan::Plan& plan) const {
  auto job = job_;
  job.plan = plan;
  Sheet sheet;
  for (const auto& rule : row_->rules)
    if (rule.key != "model") rule.apply(job, sheet);
  return sheet;
}

PlanRefusals PlanRules::operator()(const plan::Plan& plan) const {
  if (row_ == nullptr) return {};
  const auto sheet = written(plan);
  PlanRefusals refusals{sheet.refusals(), sheet.left_to_program()};
  std::erase_if(refusals.impossible, [&](const plan::Violation& v) { return std::ranges::find(always_, v.key) != always_.end(); });
  return refusals;
}

}  // namespace rehearsal::exchange
