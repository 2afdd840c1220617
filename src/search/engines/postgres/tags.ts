/** Hints: small numbers beside the words of an entry, for what is slow to find by words alone. Each says no more than the entry itself does. */
import type { SearchFilter } from '../../../ports/search-engine.ts'
import type { Part } from '../../query/parser.ts'
import type { Token } from '../../query/tokenizer.ts'
import { integers } from './binary.ts'
import { hashOf } from './token-order.ts'

/** Ranges of numbers that do not meet. */
const firstPrefix = 300_000
const firstMonth = 400_000
const firstConfidence = 600_000
const firstBlock = 700_000
const pairs = 0x40000

const characters = '0123456789abcdefghijklmnopqrstuvwxyz'
const longestPrefix = 3
/** More months than this say little, and are many to look for. */
const maxMonths = 120

/** That a word begins so; null where that is not hinted at: only up to three Latin letters or digits are. */
export function prefixHint(prefix: string): number | null {
  if (prefix.length > longestPrefix) return null
  let code = 0
  for (const character of prefix) {
    const digit = characters.indexOf(character)
    if (digit < 0) return null
    code = code * (characters.length + 1) + digit + 1
  }
  return firstPrefix + code
}

/** That these two words follow each other, or two others whose number is the same by chance. */
const pairHint = (one: string, other: string): number => hashOf(`${one} ${other}`) % pairs

const monthHint = (year: number, month: number): number =>
  firstMonth + Math.min(Math.max(year * 12 + month, 0), firstConfidence - firstMonth - 1)
const monthOf = (at: Date): number => monthHint(at.getUTCFullYear(), at.getUTCMonth())
const confidenceHint = (confidence: number): number => firstConfidence + Math.floor(confidence * 10)

/** Months that are looked into one after the other, three times as many each time: the first hold enough of what there is too much of. */
const monthsAtOnce = [1, 3, 9, 27, 81]

/** From the month of a moment on, back in time where `isBack`: for some months in a row each their hints, and where they end, with what comes behind. */
export function monthsFrom(at: Date, isBack: boolean): { readonly stretches: readonly number[][]; readonly end: Date } {
  const step = isBack ? -1 : 1
  let next = monthOf(at)
  const stretches = monthsAtOnce.map((count) => {
    const some = Array.from({ length: count }, (_, nth) => next + step * nth)
    next += step * count
    return some
  })
  const first = (isBack ? next + 1 : next) - firstMonth
  return { stretches, end: new Date(Date.UTC(Math.floor(first / 12), first % 12)) }
}

/** That an entry is in this block of its chunk; see segments.ts. */
export const blockHint = (block: number): number => firstBlock + block

/** The hints of a document in the making. */
export class Hints {
  readonly #all = new Set<number>()
  #before: Token | null = null

  /** `block`: -1 for none */
  constructor(createdAt: Date, confidence: number | null, block: number) {
    this.#all.add(monthOf(createdAt))
    if (block >= 0) this.#all.add(blockHint(block))
    if (confidence !== null) this.#all.add(confidenceHint(confidence))
  }

  /** A word, once or more often. */
  begin({ text }: Token): void {
    for (let length = 1; length <= Math.min(longestPrefix, text.length); length++) {
      const hint = prefixHint(text.slice(0, length))
      if (hint !== null) this.#all.add(hint)
    }
  }

  /** All words of one field, in their order. */
  follow(word: Token): void {
    if (word.form === 'joined') return
    if (this.#before) this.#all.add(pairHint(this.#before.text, word.text))
    this.#before = word
  }

  endField(): void {
    this.#before = null
  }

  /** An array of integers; see binary.ts */
  encoded(): Buffer {
    return integers(this.#all)
  }
}

/** What of a filter is hinted at: of each list one must be there. */
export function filterHints({ from, to, minConfidence }: SearchFilter): number[][] {
  return [
    ...(from && to ? monthsBetween(from, to) : []),
    ...(minConfidence === null ? [] : [range(confidenceHint(minConfidence), confidenceHint(1))]),
  ]
}

/** Numbers of one list that are looked up again and again: of more than a year's months, to look at the dates of what is found takes less. */
const maxLookedUp = 12

/** Those of the lists that are short. */
export const shortOnes = <List extends readonly number[]>(lists: readonly List[]): List[] =>
  lists.filter((list) => list.length <= maxLookedUp)

function monthsBetween(from: Date, to: Date): number[][] {
  const [first, last] = [monthOf(from), monthOf(to)]
  return last - first < maxMonths ? [range(first, last)] : []
}

const range = (first: number, last: number): number[] => Array.from({ length: Math.max(0, last - first + 1) }, (_, nth) => first + nth)

/** That the parts stand in a row: the pairs of those that follow each other at once. */
export const rowHints = (parts: readonly Part[]): number[] =>
  parts.slice(1).flatMap((part, index) => {
    const before = parts[index]!
    return part.offset === before.offset + 1 && !part.prefix ? pairHint(before.text, part.text) : []
  })
