#include "cli/completion/candidates.hpp"

namespace rehearsal::cli {
namespace {

// Bash takes words apart at = and :, too; what stands before the last of them is not replaced.
constexpr std::string_view kBash = R"sh(_rehearse() {
  local line="${COMP_LINE:0:COMP_POINT}" typed before found
  local -a words
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  typed="${words[-1]}"
  before="${typed%"${typed##*[=:]}"}"
  local IFS=$'\n'
  COMPREPLY=()
  for found in $(rehearse complete -- "${words[@]:1}" 2>/dev/null); do
    found="${found%%$'\t'*}"
    [[ $found == *[=,] ]] && compopt -o nospace 2>/dev/null
    COMPREPLY+=("${found:${#before}}")
  done
}
complete -o default -F _rehearse rehearse
)sh";

constexpr std::string_view kZsh = R"sh(#compdef rehearse
_rehearse() {
  local -a found
  local line
  for line in "${(@f)$(rehearse complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${line%%$'\t'*}")
  done
  if (( $#found == 0 )); then
    _files
  elif [[ ${found[1]} == *[=,] ]]; then
    compadd -M 'm:{a-zA-Z}={A-Za-z}' -S '' -- $found
  else
    compadd -M 'm:{a-zA-Z}={A-Za-z}' -- $found
  fi
}
if [[ $funcstack[1] == _rehearse ]]; then
  _rehearse "$@"
else
  compdef _rehearse rehearse
fi
)sh";

constexpr std::string_view kFish = R"sh(function __rehearse_candidates
    set -l words (commandline -opc)
    rehearse complete -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c rehearse -a '(__rehearse_candidates)'
)sh";

}  // namespace

const std::vector<ShellRow>& shell_table() {
  static const std::vector<ShellRow> kShells{
      {"bash", kBash, "echo 'source <(rehearse completion bash)' >> ~/.bashrc"},
      {"zsh", kZsh, "echo 'source <(rehearse completion zsh)' >> ~/.zshrc"},
      {"fish", kFish, "rehearse completion fish > ~/.config/fish/completions/rehearse.fish"},
  };
  return kShells;
}

}  // namespace rehearsal::cli
