/** Completion for fish, with descriptions; starts no process. */
import { type CommandNode, type FlagSpec, flattenTree, type ValueSpec } from '../command-tree.ts'

/** Returns the script. `topics` complete `dms help`. */
export function fishScript(root: CommandNode, topics: readonly string[]): string {
  const all = flattenTree(root)
  return `# Completion of dms for fish. Made by: dms completion fish
set -g __dms_valued ${all.flatMap(valuedOf).map(quoted).join(' ')}

# Prints where the line is: "dms sources sync"; after "dms help" with a "?" before it.
function __dms_at
    set -l at dms
    set -l help
    set -l is_value
    set -l tokens (commandline -opc)
    for word in $tokens[2..-1]
        if test -n "$is_value"
            set is_value
        else if contains -- "$at $word" $__dms_valued; or contains -- "* $word" $__dms_valued
            set is_value 1
        else if string match -q -- '-*' $word
            continue
        else if test "$at$help$word" = dmshelp
            set help '?'
        else
            switch "$at $word"
${all.slice(1).map(stepOf).join('\n')}
            end
        end
    end
    echo "$help$at"
end

# The same line is asked about many times.
function __dms_is
    set -l line (commandline -opc | string collect)
    if test "$line" != "$__dms_line"
        set -g __dms_line $line
        set -g __dms_place (__dms_at)
    end
    contains -- $__dms_place $argv
end

complete -c dms -e
complete -c dms -f
complete -c dms -n '__dms_is "?dms"' -a ${quoted(topics.join(' '))}
${root.flags.map((flag) => `complete -c dms${flagOf(flag)}`).join('\n')}
${all.flatMap(linesOf).join('\n')}
`
}

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
const lastOf = ({ path }: CommandNode): string => path.slice(path.lastIndexOf(' ') + 1)

const valuedOf = ({ path, flags }: CommandNode): string[] =>
  flags.flatMap(({ names, value }) => (value ? names.map((name) => `${path === 'dms' ? '*' : path} ${name}`) : []))

function stepOf({ path, aliases }: CommandNode): string {
  const parent = path.slice(0, path.lastIndexOf(' '))
  const patterns = [path, ...aliases.map((alias) => `${parent} ${alias}`)].map(quoted).join(' ')
  return `                case ${patterns}\n                    set at ${quoted(path)}`
}

function linesOf({ path, words, flags, args }: CommandNode): string[] {
  const at = `complete -c dms -n '__dms_is "${path}"'`
  return [
    ...words.map((word) => `complete -c dms -n '__dms_is "${path}" "?${path}"' -a ${lastOf(word)} -d ${quoted(word.summary)}`),
    ...(path === 'dms' ? [] : flags.map((flag) => at + flagOf(flag))),
    ...args.map((value) => offered(value)).flatMap((offer) => (offer === ' -f' ? [] : [at + offer])),
  ]
}

function flagOf({ names, description, value }: FlagSpec): string {
  const words = names.map((name) => (name.startsWith('--') ? ` -l ${name.slice(2)}` : ` -s ${name.slice(1)}`))
  return `${words.join('')} -d ${quoted(description)}${value ? ` -r${offered(value)}` : ''}`
}

function offered({ choices, isFile }: ValueSpec): string {
  if (choices.length > 0) return ` -f -a ${quoted(choices.join(' '))}`
  return isFile ? ' -F' : ' -f'
}
