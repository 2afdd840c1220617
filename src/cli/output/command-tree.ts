/** The tree of words as data, for what is made from it: completion, manual pages. */
import type { Argument, Command, Option } from 'commander'
import { Offering } from '../arguments/suggested-values.ts'
import { type Manual, manualOf } from './manual.ts'

export interface Word {
  /** all the words that lead here: "dms sources sync" */
  readonly path: string
  readonly aliases: readonly string[]
  readonly summary: string
  /** what can be typed, as "[options] [source...]" */
  readonly usage: string
  /** null for a word that only holds others */
  readonly manual: Manual | null
  readonly flags: readonly Flag[]
  readonly args: readonly Value[]
  readonly words: readonly Word[]
}

export interface Flag {
  /** "-n, --dry-run" */
  readonly flags: string
  readonly names: readonly string[]
  /** with choices and default */
  readonly description: string
  /** null where it stands alone */
  readonly value: Value | null
}

export interface Value {
  /** as in the usage: "file" */
  readonly name: string
  readonly choices: readonly string[]
  readonly isFile: boolean
  readonly isVariadic: boolean
}

/** The whole tree; flags of all commands are at its root alone. */
export function wordOf(command: Command, before: readonly string[] = []): Word {
  const path = [...before, command.name()]
  const help = command.createHelp()
  return {
    path: path.join(' '),
    aliases: command.aliases(),
    summary: command.summary() || command.description(),
    usage: command.usage(),
    manual: manualOf(command),
    flags: help.visibleOptions(command).map((option) => flagOf(option, help.optionDescription(option))),
    args: command.registeredArguments.map((argument) => asValue(argument.name(), argument)),
    words: help.visibleCommands(command).map((each) => wordOf(each, path)),
  }
}

/** A word and all below it. */
export const allWords = (word: Word): Word[] => [word, ...word.words.flatMap(allWords)]

function flagOf(option: Option, description: string): Flag {
  const { flags, short, long, required, optional } = option
  const names = [short, long].filter((name) => name !== undefined)
  const name = /[<[]([^>\]]+)[>\]]/.exec(flags)?.[1] ?? ''
  // One whose value may be left out stands alone as far as completion can tell.
  return { flags, names, description, value: required && !optional ? asValue(name, option) : null }
}

const asValue = (name: string, given: Argument | Option): Value => ({
  name,
  choices: given.argChoices ?? (given instanceof Offering ? given.offers : []),
  isFile: /\b(file|path|place|folder|backup)\b/.test(name),
  isVariadic: given.variadic,
})
