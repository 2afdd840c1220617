/** The command tree as data for completion scripts and manual pages. */
import type { Argument, Command, Option } from 'commander'
import { SuggestingOption } from '../arguments/flag-values.ts'
import { type CommandHelp, helpOf } from './manual.ts'

export interface CommandNode {
  /** command words: "dms sources sync" */
  readonly path: string
  readonly aliases: readonly string[]
  readonly summary: string
  /** arguments: "[options] [source...]" */
  readonly usage: string
  /** null for a group */
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
  /** null for a flag without a value */
  readonly value: ValueSpec | null
}

/** Kinds of names that completion asks the server or contexts.toml for. */
export const nameKinds = ['label', 'hold', 'user', 'source', 'context'] as const

export interface ValueSpec {
  /** name in the usage: "file" */
  readonly name: string
  readonly choices: readonly string[]
  /** names to ask for; null: none */
  readonly names: (typeof nameKinds)[number] | null
  /** several values, separated by commas */
  readonly isList: boolean
  readonly isFile: boolean
  readonly isVariadic: boolean
}

/** Builds the tree. Global flags are at the root only. */
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

/** Returns the node and all its descendants. */
export const flattenTree = (word: CommandNode): CommandNode[] => [word, ...word.words.flatMap(flattenTree)]

function describeFlag(option: Option, description: string): FlagSpec {
  const { flags, short, long, required } = option
  const names = [short, long].filter((name) => name !== undefined)
  const name = /[<[]([^>\]]+)[>\]]/.exec(flags)?.[1] ?? ''
  // Completion treats a flag with an optional value as a flag without one. `optional` is also true for `<field[:asc|desc]>`.
  return { flags, names, description, value: required ? describeValue(name, option) : null }
}

const describeValue = (name: string, value: Argument | Option): ValueSpec => ({
  name,
  choices: value.argChoices ?? (value instanceof SuggestingOption ? value.suggestions : []),
  names: nameKinds.find((kind) => name === kind || name === `${kind}s`) ?? null,
  isList: name === 'names' || name === 'labels',
  isFile: /\b(file|path|place|folder|backup)\b/.test(name),
  isVariadic: value.variadic,
})
