/** Parts of completion scripts. Lines of `case` statements are the same for bash and zsh. */
import { quote } from '../../../log/escape.ts'
import type { CommandNode, FlagSpec, ValueSpec } from '../command-tree.ts'

/** Returns the last word of a command. */
export const lastWord = ({ path }: CommandNode): string => path.slice(path.lastIndexOf(' ') + 1)

/** Returns the words that select a command: its path, and its path with each alias. */
export function pathsOf({ path, aliases }: CommandNode): string[] {
  const parent = path.slice(0, path.lastIndexOf(' '))
  return [path, ...aliases.map((alias) => `${parent} ${alias}`)]
}

/** Returns the names of flags with or without a value, with their descriptions. */
export const flagNames = (
  { flags }: { readonly flags: readonly FlagSpec[] },
  { hasValue }: { readonly hasValue: boolean },
): { name: string; description: string }[] =>
  flags
    .filter(({ value }) => (value !== null) === hasValue)
    .flatMap(({ names, description }) => names.map((name) => ({ name, description })))

/** Formats the case that follows the words of a command. */
export const stepCase = (node: CommandNode): string => `        (${pathsOf(node).map(quote).join('|')}) at=${quote(node.path)} ;;`

/** Returns the statement that completes a value; null if nothing can be suggested. */
export type Completer = (value: ValueSpec) => string | null

/** Formats the cases of values behind flags. Global flags match after any command. */
export const flagValueCases = ({ path, flags }: CommandNode, complete: Completer): string[] =>
  flags.flatMap(({ names, value }) =>
    value ? names.flatMap((name) => caseOf(path === 'dms' ? `*${quote(` ${name}`)}` : quote(`${path} ${name}`), complete(value))) : [],
  )

/** Formats a case for each argument that can be completed, by its position. */
export const argumentCases = ({ path, args }: CommandNode, complete: Completer): string[] =>
  args.flatMap((value, index) => caseOf(`${quote(`${path} `)}${value.isVariadic ? '*' : index}`, complete(value)))

const caseOf = (pattern: string, statement: string | null): string[] => (statement === null ? [] : [`    (${pattern}) ${statement} ;;`])
