# SPDX-License-Identifier: MIT
# Bash completion of pliant, pliant-bench, pliant-lab and pliant-plan. Options and commands are those that --help names, so they are never out of
# date; a word that is no option is a file.

# The options in the help of a command.
_pliant_options() {
  "$@" --help 2>/dev/null | grep -oE -- '(^|[ ,[])--?[A-Za-z][A-Za-z_-]*' | tr -d ' ,['
}

# The commands in its help: indented words, in lines of their own.
_pliant_commands() {
  case $1 in
    pliant) "$@" --help 2>/dev/null | sed -nE 's/^  ([a-z]+) {2,}.*/\1/p' | grep -v '^pliant$' ;;
    *) "$@" --help 2>/dev/null | sed -n '/^Subcommands:/,$p' | sed -nE 's/^  ([a-z]+) +.*/\1/p' ;;
  esac
}

_pliant() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local -a command=("${COMP_WORDS[0]##*/}")
  local position=1
  COMPREPLY=()
  local i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [ "${COMP_WORDS[i]}" = -- ] && return  # from here on it is somebody else's command
  done
  if [ "${command[0]}" = pliant ] && [ "$COMP_CWORD" -gt 1 ]; then
    command+=("${COMP_WORDS[1]}")
    position=2
  fi
  if [ "${command[*]}" = "pliant lab" ] || [ "${command[0]}" = pliant-lab ]; then
    if [ "$COMP_CWORD" -gt $position ]; then
      if [ "${COMP_WORDS[position]}" = timelines ] || [ "$previous" = --timeline ]; then
        mapfile -t COMPREPLY < <(compgen -W "$("${command[@]}" timelines 2>/dev/null | cut -d' ' -f1)" -- "$word")
        [ "$previous" = --timeline ] && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word")
        return
      fi
      command+=("${COMP_WORDS[position]}")
    else
      mapfile -t COMPREPLY < <(compgen -W "$("${command[@]}" --help 2>/dev/null | sed -n '/^Subcommands:/,$p' | sed -nE 's/^  ([a-z]+) +.*/\1/p') $(_pliant_options "${command[@]}")" -- "$word")
      return
    fi
  elif [ "${command[*]}" = pliant ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_pliant_commands pliant) --help --version" -- "$word")
    return
  fi
  [[ $word == -* ]] && mapfile -t COMPREPLY < <(compgen -W "$(_pliant_options "${command[@]}")" -- "$word")
}

complete -o default -F _pliant pliant pliant-bench pliant-lab pliant-plan
