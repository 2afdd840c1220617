/** Completion of a typed line, for shells whose script leaves all of it to dms. */
import type { CommandNode, FlagSpec, ValueSpec } from '../command-tree.ts'
import { flagNames, lastWord, pathsOf } from './cases.ts'

export interface Suggestion {
  readonly value: string
  readonly description: string
}

export interface LineCompletion {
  readonly suggestions: readonly Suggestion[]
  /** names to ask for; null: none */
  readonly names: ValueSpec['names']
  /** text before each name */
  readonly before: string
  /** start of the name */
  readonly typed: string
}

/** Completes the last of the words that follow `dms`. `topics` complete `dms help`. */
export function completeLine(root: CommandNode, topics: readonly string[], words: readonly string[]): LineCompletion {
  const typed = words.at(-1) ?? ''
  let at = root
  let argCount = 0
  let isHelp = false
  let valued: FlagSpec | undefined
  const flagsHere = (): FlagSpec[] => [...at.flags, ...(at === root ? [] : root.flags)]
  for (const word of words.slice(0, -1)) {
    const isValue = valued !== undefined
    valued = isValue ? undefined : findValuedFlag(flagsHere(), word)
    if (isValue || word.startsWith('-')) continue
    const next = at.words.find((each) => pathsOf(each).includes(`${at.path} ${word}`))
    if (at === root && !isHelp && word === 'help') isHelp = true
    else if (next) at = next
    else argCount++
  }
  const [, flag = '', value = ''] = /^(--[^=]+)=(.*)$/s.exec(typed) ?? []
  const inWord = flagsHere().find(({ names, value }) => value !== null && names.includes(flag))
  if (valued?.value) return completeValue(valued.value, typed, '')
  if (inWord?.value) return completeValue(inWord.value, value, `${flag}=`)
  const flags = [false, true].flatMap((hasValue) => flagNames({ flags: flagsHere() }, { hasValue }))
  const allFlags = suggest(
    flags.map(({ name, description }) => ({ value: name, description })),
    typed,
  )
  if (typed.startsWith('-') && !isHelp) return allFlags
  const below = at.words.map((word) => ({ value: lastWord(word), description: word.summary }))
  const named = isHelp && at === root ? [...below, ...topics.map((topic) => ({ value: topic, description: 'topic' }))] : below
  if (named.length > 0 || isHelp) return suggest(named, typed)
  const last = at.args.at(-1)
  const argument = at.args[argCount] ?? (last?.isVariadic ? last : undefined)
  const isCompletable = argument && (argument.choices.length > 0 || argument.names !== null || argument.isFile)
  return isCompletable ? completeValue(argument, typed, '') : allFlags
}

/** Returns the flag of the word that takes the next word. Of bundled short flags, it is the last one. */
function findValuedFlag(flags: readonly FlagSpec[], word: string): FlagSpec | undefined {
  const find = (name: string) => flags.find(({ names, value }) => value !== null && names.includes(name))
  if (!/^-[^-]/.test(word)) return find(word)
  const letters = [...word.slice(1)]
  const first = letters.findIndex((letter) => find(`-${letter}`))
  return first === letters.length - 1 ? find(`-${letters[first]}`) : undefined
}

/** Completes a value behind `prefix`; of a list, its last value. */
function completeValue({ choices, names, isList }: ValueSpec, text: string, prefix: string): LineCompletion {
  const comma = isList ? text.lastIndexOf(',') + 1 : 0
  const before = prefix + text.slice(0, comma)
  const typed = text.slice(comma)
  const suggestions = choices.filter((choice) => choice.startsWith(typed)).map((choice) => ({ value: before + choice, description: '' }))
  return { suggestions, names: choices.length > 0 ? null : names, before, typed }
}

const suggest = (all: readonly Suggestion[], typed: string): LineCompletion => ({
  suggestions: all.filter(({ value }) => value.startsWith(typed)),
  names: null,
  before: '',
  typed,
})
