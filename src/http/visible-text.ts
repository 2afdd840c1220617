/** Names and titles in which everything can be seen: no control characters, no marks that reorder text, nothing without width. */
import { z } from 'zod'

const invisiblePattern = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u

/** Scripts that are written with joiners: without them words of Persian or Hindi are misspelled. */
const joiningScripts =
  '\\p{Script=Arabic}\\p{Script=Bengali}\\p{Script=Devanagari}\\p{Script=Gujarati}\\p{Script=Gurmukhi}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Oriya}\\p{Script=Sinhala}\\p{Script=Tamil}\\p{Script=Telugu}'

/** Joiners inside words of those scripts, and what makes one emoji of several. */
const allowedJoiners = new RegExp(
  `(?<=[${joiningScripts}\\p{M}])[\\u200c\\u200d](?=[${joiningScripts}])|(?<=\\p{Extended_Pictographic}[\\ufe0f\\u{1f3fb}-\\u{1f3ff}]?)\\u200d(?=\\p{Extended_Pictographic})|(?<=\\p{Emoji})\\ufe0f`,
  'gu',
)

/** Whether a text holds a control character, or one that cannot be seen. */
export const hasInvisible = (text: string): boolean => invisiblePattern.test(text.replace(allowedJoiners, ''))

/** A name that people choose and others read: trimmed, in NFC, 1 to `maxLength` characters. */
export const visibleName = (maxLength: number) =>
  z
    .string()
    // What is far too long is not worth looking at.
    .max(10 * maxLength, { abort: true })
    .trim()
    .normalize('NFC')
    .min(1)
    .max(maxLength)
    .refine((name) => !hasInvisible(name), 'no control or invisible character, and none that changes the direction of text')

/** One line of text: line breaks and tabs become spaces, other hidden characters are left out. */
export function visibleLine(text: string): string {
  const line = text.replace(/[\t\n\v\f\r\x85\u2028\u2029]+/g, ' ')
  if (!hasInvisible(line)) return line
  const allowedAt = new Set(Array.from(line.matchAll(allowedJoiners), ({ index }) => index))
  return line.replace(new RegExp(invisiblePattern, 'gu'), (character, index: number) => (allowedAt.has(index) ? character : ''))
}
