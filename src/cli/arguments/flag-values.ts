/** Parsers of flag values. */

import { type Command, Option } from 'commander'
import { parseDuration } from '../../config/values.ts'
import type { SplitMode } from '../../db/schema-documents.ts'
import { usage } from '../runtime/exit.ts'

/** Longest duration of a timer, as in the configuration: Node counts its milliseconds in 31 bits. */
export const maxTimer = '24d'

/** Parses a duration such as 90s, 24h or 7d into milliseconds. Throws Failure USAGE with the name of the flag, also if it is longer than `max`. */
export function parseDurationFlag(flag: string, text: string, max = '36500d'): number {
  const ms = readDuration(flag, text)
  if (ms > parseDuration(max)) throw usage(`${flag}: "${text}" is longer than ${max}`)
  return ms
}

function readDuration(flag: string, text: string): number {
  try {
    return parseDuration(text)
  } catch (error) {
    throw usage(`${flag}: "${text}" ${(error as Error).message}`)
  }
}

/** Formats the time since `time` in one unit: 45s, 12m, 30h, 9d. Duration flags accept the result. */
export function formatAge(time: string, now: Date): string {
  const seconds = Math.max(0, Math.floor((now.getTime() - Date.parse(time)) / 1000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}

const splitModes = ['none', 'blank', 'barcode'] as const satisfies readonly SplitMode[]

/** Returns the option for how stacks of pages become several documents. */
export const splitOption = (): Option => new Option('--split <mode>', 'split PDFs and TIFFs at blank pages or barcodes').choices(splitModes)

/** Parses `key=value` pairs into an object of strings. Throws Failure USAGE with the name of the flag. */
export function parseKeyValues(flag: string, pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=')
      if (at < 1) throw usage(`${flag} ${pair}: not of the form KEY=VALUE`)
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}

/** Parses the whole number of a flag. Throws Failure USAGE if it is not between `min` and `max`. */
export function parseCount(flag: string, text: string, { min = 1, max = 999_999_999 }: { min?: number; max?: number } = {}): number {
  const count = Number(text)
  if (!/^\d{1,9}$/.test(text) || count < min || count > max)
    throw usage(`${flag} ${text}: not a whole number ${max === 999_999_999 ? `of ${min} or more` : `from ${min} to ${max}`}`)
  return count
}

/** Arguments that may be empty: text of the user, and the words before the cursor. */
const textArguments = ['text', 'word']

/** Throws Failure USAGE if an argument of a command, or an option with a path, is empty, such as from an unset variable in a script. */
export function refuseEmptyValues(command: Command): void {
  const paths = command.options.filter(({ flags }) => /<(?:file|folder|path|place|backup)\b/.test(flags))
  const names = command.registeredArguments.map((argument) => argument.name())
  const values = [
    ...paths.map((option) => [option.long, command.getOptionValue(option.attributeName())]),
    ...names.map((name, index) => [name, textArguments.includes(name) ? null : command.processedArgs[index]]),
  ]
  const empty = values.find(([, value]) => [value].flat().includes(''))
  if (empty) throw usage(`${empty[0]}: the value is empty`, 'look for a variable without a value')
}

/** Throws Failure USAGE for a value without content, such as from an unset variable in a script: a filter would select everything. */
export function refuseEmpty(flag: string, noun: string, value: string | undefined): void {
  if (value !== undefined && /^[\s,]*$/.test(value)) throw usage(`${flag}: no ${noun} given`)
}

/** Collects the values of a repeatable option, for commander. */
export const collectValues = (value: string, before: readonly string[] = []): string[] => [...before, value]

/** Option with suggested values for completion. Accepts other values too, because a value may be a list. The server validates it. */
export class SuggestingOption extends Option {
  readonly suggestions: readonly string[]

  constructor(flags: string, description: string, suggestions: readonly string[]) {
    super(flags, description)
    this.suggestions = suggestions
  }
}
