#pragma once
// What plan files keep of the options of a command, and how a later command takes it from them.

#include "cli/model_options.hpp"
#include "cli/platform_options.hpp"
#include "plan/context.hpp"

namespace rehearsal::cli {

/// Options of what is trained that are not the default, but for model, batch, loss, dtype and optimizer, which a context names itself.
[[nodiscard]] plan::Words training_words(const ModelOptions&);
/// --optimizer as it would be written.
[[nodiscard]] std::string optimizer_text(const ModelOptions&);
/// Where a plan was searched, and as which framework runs it.
[[nodiscard]] plan::Words place_words(const PlatformOptions&, const std::string& framework);

/// A file of a plan or Program stands for the model and how it is trained where the user wrote nothing else. Throws BadInput for an option
/// that there is none of.
void take_context(ModelOptions&, const plan::PlanContext&);
/// And for where it runs: the platform with its size and measurements where none is named, the framework and its recipe where that is not.
void take_place(PlatformOptions&, const plan::PlanContext&);

/// Throws Refusal of a plan that says which ranks are on which nodes: those who start ranks decide that.
void require_no_order_of_nodes(const plan::Plan&);
/// A plan (compact text or a file) to train by. One that was searched for the default optimizer may train with another, which is said; for
/// another training than the one it was made for throws BadInput.
[[nodiscard]] plan::Plan plan_to_train(const ModelOptions&, const std::string& text, const graph::TrainingGraph&,
                                       std::vector<std::string>& warnings);

/// Those words as arguments of the command line: "--clip-norm=1".
[[nodiscard]] std::vector<std::string> arguments_of(const plan::Words&);

/// "zoo:gpt with --batch 64 --loss auto --dtype bf16 --lora 16": what a plan was made for, for messages.
[[nodiscard]] std::string made_for(const plan::PlanContext&);

}  // namespace rehearsal::cli
