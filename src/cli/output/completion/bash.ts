/** Completion for bash: a function that starts no process. */
import { type CommandNode, flattenTree, type ValueSpec } from '../command-tree.ts'

/** Returns the script. `topics` complete `dms help`. */
export function bashScript(root: CommandNode, topics: readonly string[]): string {
  const all = flattenTree(root)
  return `# Completion of dms for bash. Made by: dms completion bash
_dms() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]}
  local at=dms args=0 is_help= i word flags valued words= kind
  # bash takes --flag=value for three words.
  [[ $cur == = ]] && cur=
  [[ $prev == = ]] && prev=\${COMP_WORDS[COMP_CWORD-2]}
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    _dms_flags
    if [[ " $valued " == *" $word "* ]]; then
      [[ \${COMP_WORDS[i+1]} == = ]] && ((i++))
      ((i++))
    elif [[ $word == -* ]]; then
      continue
    elif [[ $at$is_help == dms && $word == help ]]; then
      is_help=1
    else
      case "$at $word" in
${all.slice(1).flatMap(stepsOf).join('\n')}
        *) ((args++)) ;;
      esac
    fi
  done
  _dms_flags
  kind=
  if [[ " $valued " == *" $prev "* ]]; then
    case "$at $prev" in
${all.flatMap(flagValues).join('\n')}
    esac
  elif [[ $cur == -* && ! $is_help ]]; then
    words="$flags $valued"
  else
    case $at in
${all
  .filter(({ words }) => words.length > 0)
  .map(({ path, words }) => `      "${path}") words="${words.map(lastOf).join(' ')}" ;;`)
  .join('\n')}
    esac
    [[ $is_help && $at == dms ]] && words+=" ${topics.join(' ')}"
    [[ $is_help ]] || case "$at $args" in
${all.flatMap(argumentValues).join('\n')}
    esac
    [[ -z $words$kind && ! $is_help ]] && words="$flags $valued"
  fi
  if [[ $kind == file ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  fi
}

# What the command at $at takes: flags that stand alone, and those with a value.
_dms_flags() {
  case $at in
${all
  .slice(1)
  .map((word) => `    "${word.path}") flags="${flagsOf(word, false)}" valued="${flagsOf(word, true)}" ;;`)
  .join('\n')}
    *) flags= valued= ;;
  esac
  flags+=" ${flagsOf(root, false)}" valued+=" ${flagsOf(root, true)}"
}

complete -F _dms dms
`
}

const lastOf = ({ path }: CommandNode): string => path.slice(path.lastIndexOf(' ') + 1)

/** Returns the case that follows a command word or alias. */
function stepsOf({ path, aliases }: CommandNode): string[] {
  const parent = path.slice(0, path.lastIndexOf(' '))
  const patterns = [path, ...aliases.map((alias) => `${parent} ${alias}`)].map((text) => `"${text}"`).join(' | ')
  return [`        ${patterns}) at="${path}" ;;`]
}

const flagsOf = ({ flags }: CommandNode, hasValue: boolean): string =>
  flags
    .filter(({ value }) => (value !== null) === hasValue)
    .flatMap(({ names }) => names)
    .join(' ')

/** Global flags match after any command. */
const flagValues = ({ path, flags }: CommandNode): string[] =>
  flags.flatMap(({ names, value }) =>
    value ? names.flatMap((name) => valueLine(path === 'dms' ? `*" ${name}"` : `"${path} ${name}"`, value)) : [],
  )

const argumentValues = ({ path, args }: CommandNode): string[] =>
  args.flatMap((value, index) => valueLine(`"${path} "${value.isVariadic ? '*' : index}`, value))

function valueLine(pattern: string, { choices, isFile }: ValueSpec): string[] {
  if (choices.length > 0) return [`      ${pattern}) words="${choices.join(' ')}" ;;`]
  return isFile ? [`      ${pattern}) kind=file ;;`] : []
}
