/** Finds pieces of a text, no matter the case, the accents or how much space there is. */
import { plain } from './words.ts'

export interface FoundPiece {
  /** in the text (UTF-16) */
  readonly start: number
  readonly end: number
  /** which of them */
  readonly piece: number
}

/** What is longer than anything that can be asked for is so by its spaces, and not shown whole. */
const longest = 2_000

/** Where the pieces stand, one after the other, each place once for each piece. */
export function piecesIn(text: string, pieces: readonly string[]): FoundPiece[] {
  if (pieces.length === 0) return []
  const { folded, starts, ends } = unfold(text)
  return pieces.flatMap((value, piece) => {
    const pattern = expression(value)
    if (pattern === null) return []
    return [...folded.matchAll(pattern)].map(({ 0: { length }, index }) => {
      const start = starts(index)
      return { start, end: Math.min(ends(index + length - 1), start + longest), piece }
    })
  })
}

/** A pattern in which any space may be more or less; at the edges one is enough, and more would take quadratic time in a text full of spaces. */
export const anySpace = (pattern: string): string => pattern.replace(/^\s+|\s+$/g, '\\s').replace(/\s+/g, '\\s+')

const syntax = /[$()*+./?[\\\]^{|}]/g

function expression(value: string): RegExp | null {
  const folded = plain(value)
  return folded === '' ? null : new RegExp(anySpace(folded.replace(syntax, '\\$&')), 'gu')
}

const mark = /^\p{M}+/u

/** The text as plain() has it, and where each unit of that stands in the text itself. */
function unfold(text: string): { folded: string; starts(at: number): number; ends(at: number): number } {
  const whole = plain(text)
  // Nothing was replaced by anything longer or shorter, as in all plain English.
  if (whole.length === text.length && !/[^\p{ASCII}]/u.test(text)) return { folded: whole, starts: (at) => at, ends: (at) => at + 1 }
  const known = new Map<string, string>()
  const from: number[] = []
  let folded = ''
  let at = 0
  for (const character of text) {
    const now = known.get(character) ?? plain(character)
    known.set(character, now)
    for (let unit = 0; unit < now.length; unit++) from.push(at)
    folded += now
    at += character.length
  }
  const widthAt = (start: number): number => String.fromCodePoint(text.codePointAt(start)!).length
  return {
    folded,
    starts: (unit) => from[unit]!,
    ends: (unit) => {
      const start = from[unit]!
      const end = start + widthAt(start)
      return end + (mark.exec(text.slice(end, end + 8))?.[0].length ?? 0)
    },
  }
}
