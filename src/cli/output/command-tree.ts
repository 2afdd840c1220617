/** The tree of words as data, for what is made from it: completion, manual pages. */
import type { Argument, Command, Option } from 'commander'
import { Offering } from '../arguments/suggested-values.ts'
import { type CommandHelp, helpOf } from './manual.ts'

export interface CommandNode {
  /** all the words that lead here: "dms sources sync" */
  readonly path: string
  readonly aliases: readonly string[]
  readonly summary: string
  /** what can be typed, as "[options] [source...]" */
  readonly usage: string
  /** null for a word that only holds others */
  readonly manual: CommandHelp | null
  readonly flags: readonly FlagSpec[]
  readonly args: readonly ValueSpec[]
  readonly words: readonly CommandNode[]
}

export interface FlagSpec {
  /** "-n, --dry-run" */
  readonly flags: string
  readonly names: readonly string[]
  /** with choices and default */
  readonly description: string
  /** null where it stands alone */
  readonly value: ValueSpec | null
}

export interface ValueSpec {
  /** as in the usage: "file" */
  readonly name: string
  readonly choices: readonly string[]
  readonly isFile: boolean
  readonly isVariadic: boolean
}

/** The whole tree; flags of all commands are at its root alone. */
export function buildCommandTree(command: Command, before: readonly string[] = []): CommandNode {
  const path = [...before, command.name()]
  const help = command.createHelp()
  return {
    path: path.join(' '),
    aliases: command.aliases(),
    summary: command.summary() || command.description(),
    usage: command.usage(),
    manual: helpOf(command),
    flags: help.visibleOptions(command).map((option) => describeFlag(option, help.optionDescription(option))),
    args: command.registeredArguments.map((argument) => describeValue(argument.name(), argument)),
    words: help.visibleCommands(command).map((each) => buildCommandTree(each, path)),
  }
}

/** A word and all below it. */
export const flattenTree = (word: CommandNode): CommandNode[] => [word, ...word.words.flatMap(flattenTree)]

function describeFlag(option: Option, description: string): FlagSpec {
  const { flags, short, long, required, optional } = option
  const names = [short, long].filter((name) => name !== undefined)
  const name = /[<[]([^>\]]+)[>\]]/.exec(flags)?.[1] ?? ''
  // One whose value may be left out stands alone as far as completion can tell.
  return { flags, names, description, value: required && !optional ? describeValue(name, option) : null }
}

const describeValue = (name: string, given: Argument | Option): ValueSpec => ({
  name,
  choices: given.argChoices ?? (given instanceof Offering ? given.offers : []),
  isFile: /\b(file|path|place|folder|backup)\b/.test(name),
  isVariadic: given.variadic,
})
