#pragma once
// Whether a command would write over a file that it reads, or write two things into one.

namespace CLI {
class App;
}

namespace rehearsal::cli {

/// `command` has been parsed. Throws BadInput naming both options. Commands that write a file anew which they read
/// (calibrate, fit, learn) are not asked.
void refuse_lost_inputs(const CLI::App& command);

}  // namespace rehearsal::cli
