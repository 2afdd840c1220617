/** Completion for zsh, with descriptions; starts no process. */
import { type CommandNode, flattenTree, type ValueSpec } from '../command-tree.ts'

/** Returns the script, for a folder of $fpath as _dms, or to be sourced. `topics` complete `dms help`. */
export function zshScript(root: CommandNode, topics: readonly string[]): string {
  const all = flattenTree(root)
  const parents = all.filter(({ words }) => words.length > 0)
  return `#compdef dms
# Completion of dms for zsh. Made by: dms completion zsh
_dms() {
  local at=dms is_help= word prev=\${words[CURRENT-1]}
  local -i args=0 i
  local -a names flags valued known
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
    _dms_flags
    if (( \${known[(Ie)$word]} )); then
      (( i++ ))
    elif [[ $word == -* ]]; then
      continue
    elif [[ $at$is_help == dms && $word == help ]]; then
      is_help=1
    else
      case "$at $word" in
${all.slice(1).map(stepOf).join('\n')}
        (*) (( args++ )) ;;
      esac
    fi
  done
  _dms_flags
  if [[ \${words[CURRENT]} == --*=* ]]; then
    prev=\${words[CURRENT]%%=*}
    compset -P '*='
  fi
  if (( \${known[(Ie)$prev]} )); then
    case "$at $prev" in
${all.flatMap(flagValues).join('\n')}
    esac
    return
  fi
  if [[ \${words[CURRENT]} == -* && -z $is_help ]]; then
    _describe -o flag flags -- valued
    return
  fi
  case $at in
${parents.map(({ path, words }) => `    (${quoted(path)}) names=(${words.map((word) => described(lastOf(word), word.summary)).join(' ')}) ;;`).join('\n')}
  esac
  [[ $is_help && $at == dms ]] && names+=(${topics.join(' ')})
  if (( $#names )); then
    _describe command names
    return
  fi
  [[ $is_help ]] && return
  case "$at $args" in
${all.flatMap(argumentValues).join('\n')}
    (*) _describe -o flag flags -- valued ;;
  esac
}

# What the command at $at takes: flags that stand alone, and those with a value (known: their names).
_dms_flags() {
  case $at in
${all
  .slice(1)
  .map((word) => `    (${quoted(word.path)}) flags=(${flagsOf(word, false)}) valued=(${flagsOf(word, true)}) ;;`)
  .join('\n')}
    (*) flags=() valued=() ;;
  esac
  flags+=(${flagsOf(root, false)}) valued+=(${flagsOf(root, true)})
  known=(\${valued%%:*})
}

if [[ \${funcstack[1]} == _dms ]]; then
  _dms "$@"
else
  compdef _dms dms
fi
`
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const described = (name: string, description: string): string => quoted(`${name}:${description}`)
const lastOf = ({ path }: CommandNode): string => path.slice(path.lastIndexOf(' ') + 1)

function stepOf({ path, aliases }: CommandNode): string {
  const parent = path.slice(0, path.lastIndexOf(' '))
  const patterns = [path, ...aliases.map((alias) => `${parent} ${alias}`)].map(quoted).join('|')
  return `        (${patterns}) at=${quoted(path)} ;;`
}

const flagsOf = ({ flags }: CommandNode, hasValue: boolean): string =>
  flags
    .filter(({ value }) => (value !== null) === hasValue)
    .flatMap(({ names, description }) => names.map((name) => described(name, description)))
    .join(' ')

/** Global flags match after any command. */
const flagValues = ({ path, flags }: CommandNode): string[] =>
  flags.flatMap(({ names, value }) =>
    value ? names.flatMap((name) => valueLine(path === 'dms' ? `*${quoted(` ${name}`)}` : quoted(`${path} ${name}`), value)) : [],
  )

const argumentValues = ({ path, args }: CommandNode): string[] =>
  args.flatMap((value, index) => valueLine(`${quoted(`${path} `)}${value.isVariadic ? '*' : index}`, value))

function valueLine(pattern: string, { choices, isFile }: ValueSpec): string[] {
  if (choices.length > 0) return [`    (${pattern}) compadd -- ${choices.join(' ')} ;;`]
  return isFile ? [`    (${pattern}) _files ;;`] : []
}
