/** Names and titles without control characters, direction marks and invisible characters. */
import { z } from 'zod'

const invisiblePattern = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u

/** Scripts whose spelling needs joiners, such as Persian and Hindi. */
const joiningScripts =
  '\\p{Script=Arabic}\\p{Script=Bengali}\\p{Script=Devanagari}\\p{Script=Gujarati}\\p{Script=Gurmukhi}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Oriya}\\p{Script=Sinhala}\\p{Script=Tamil}\\p{Script=Telugu}'

/** Joiners inside words of these scripts and inside emoji sequences. */
const allowedJoiners = new RegExp(
  `(?<=[${joiningScripts}\\p{M}])[\\u200c\\u200d](?=[${joiningScripts}])|(?<=\\p{Extended_Pictographic}[\\ufe0f\\u{1f3fb}-\\u{1f3ff}]?)\\u200d(?=\\p{Extended_Pictographic})|(?<=\\p{Emoji})\\ufe0f`,
  'gu',
)

/** Tells if a text has a control character or an invisible one. */
export const hasInvisible = (text: string): boolean => invisiblePattern.test(text.replace(allowedJoiners, ''))

/** Name chosen by a user: trimmed, in NFC, 1 to `maxLength` characters. */
export const visibleName = (maxLength: number) =>
  z
    .string()
    // Skips normalization of far too long text.
    .max(10 * maxLength, { abort: true })
    .trim()
    .normalize('NFC')
    .min(1)
    .max(maxLength)
    .refine((name) => !hasInvisible(name), 'no control or invisible character, and none that changes the direction of text')

/** Returns text as one line: replaces line breaks and tabs by spaces, and removes other invisible characters. */
export function visibleLine(text: string): string {
  const line = text.replace(/[\t\n\v\f\r\x85\u2028\u2029]+/g, ' ')
  if (!hasInvisible(line)) return line
  const allowedAt = new Set(Array.from(line.matchAll(allowedJoiners), ({ index }) => index))
  return line.replace(new RegExp(invisiblePattern, 'gu'), (character, index: number) => (allowedAt.has(index) ? character : ''))
}
