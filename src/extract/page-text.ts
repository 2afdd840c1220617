/** Which text of a page to believe: the file's own, that of OCR, or both. */

import { tidy } from './readers/decode.ts'

/** At least so many letters and digits make a text layer that stands for its page. */
const enoughLetters = 32
/** A page under pictures with fewer characters than this is a picture with a caption. */
const caption = 200
const garbageShare = 0.1
/** Pages with more segments than some rules and frames may be text turned into outlines. */
const frameSegments = 60

const letters = /[\p{L}\p{N}]/gu
const garbage = /[\ufffd\p{Co}\p{Cn}]|[\p{Cc}--[\n\t\r]]/gv

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0

/** What the file's own text of a page is worth. */
export interface Layer {
  /** without characters that mean nothing */
  readonly text: string
  /** false where too much of it means nothing: a font without a map to characters */
  readonly trusted: boolean
  /** whether the text alone shows that nothing is missing, or only a look at the page can tell */
  readonly sure: boolean
}

/** Some programs write their map to characters with the two bytes of each in the wrong order; no language has so many with a lower byte of 0. */
function unswap(text: string): string {
  const swapped = text.match(/[^\p{ASCII}\s]/gu)?.filter((letter) => (letter.charCodeAt(0) & 0xff) === 0).length ?? 0
  if (swapped < 4 || swapped < 0.8 * text.replace(/\s/g, '').length) return text
  return text.replace(/[^\p{ASCII}]/gu, (letter) =>
    (letter.charCodeAt(0) & 0xff) === 0 ? String.fromCharCode(letter.charCodeAt(0) >> 8) : letter,
  )
}

/** Judges the text layer of a page. */
export function judge(stored: string): Layer {
  const raw = unswap(stored)
  const bad = count(raw, garbage)
  const visible = raw.replace(/\s/g, '').length
  const trusted = visible === 0 || bad / visible <= garbageShare
  const text = tidy(bad > 0 ? raw.replace(garbage, '') : raw)
  return { text, trusted, sure: trusted && visible >= caption && count(text, letters) >= enoughLetters }
}

/** Whether OCR has to look at a page with this layer and these drawings. */
export function wantsOcr(layer: Layer, drawn: { texts: number; imageShare: number; segments: number }): boolean {
  if (!layer.trusted) return true
  if (layer.sure) return false
  const known = count(layer.text, letters)
  if (known >= enoughLetters) return drawn.imageShare > 0.7
  if (known === 0 && drawn.texts > 0) return true
  return drawn.imageShare > 0.005 || drawn.segments > frameSegments
}

const wordsOf = (line: string): string[] => line.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []

/** Joins a page's own text and that of OCR: all of the first, and of the second the lines that say something new. */
export function joinTexts(own: string, recognized: string): string {
  if (own.trim() === '') return recognized
  const known = new Set(wordsOf(own))
  const fresh = recognized.split('\n').filter((line) => {
    const words = wordsOf(line)
    return words.length > 0 && !words.every((word) => known.has(word))
  })
  return fresh.length > 0 ? `${own}\n${fresh.join('\n')}` : own
}
