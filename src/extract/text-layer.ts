/** Which text of a page to believe: the file's own, that of OCR, or both. */

import { normalizeWhitespace } from './readers/decode.ts'

/** At least so many letters and digits make a text layer that stands for its page. */
const minLetters = 32
/** A page under pictures with fewer characters than this is a picture with a caption. */
const maxCaptionLength = 200
const maxGarbageShare = 0.1
/** Pages with more segments than some rules and frames may be text turned into outlines. */
const maxFrameSegments = 60

const letters = /[\p{L}\p{N}]/gu
const garbage = /[\ufffd\p{Co}\p{Cn}]|[\p{Cc}--[\n\t\r]]/gv

const countMatches = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0

/** What the file's own text of a page is worth. */
export interface TextLayer {
  /** without characters that mean nothing */
  readonly text: string
  /** false where too much of it means nothing: a font without a map to characters */
  readonly isTrusted: boolean
  /** whether the text alone shows that nothing is missing, or only a look at the page can tell */
  readonly isConclusive: boolean
}

/** Some programs write their map to characters with the two bytes of each in the wrong order; no language has so many with a lower byte of 0. */
function fixByteOrder(text: string): string {
  const swapped = text.match(/[^\p{ASCII}\s]/gu)?.filter((letter) => (letter.charCodeAt(0) & 0xff) === 0).length ?? 0
  if (swapped < 4 || swapped < 0.8 * text.replace(/\s/g, '').length) return text
  return text.replace(/[^\p{ASCII}]/gu, (letter) =>
    (letter.charCodeAt(0) & 0xff) === 0 ? String.fromCharCode(letter.charCodeAt(0) >> 8) : letter,
  )
}

/** Judges the text layer of a page. */
export function assessTextLayer(stored: string): TextLayer {
  const raw = fixByteOrder(stored)
  const bad = countMatches(raw, garbage)
  const visible = raw.replace(/\s/g, '').length
  const isTrusted = visible === 0 || bad / visible <= maxGarbageShare
  const text = normalizeWhitespace(bad > 0 ? raw.replace(garbage, '') : raw)
  return { text, isTrusted, isConclusive: isTrusted && visible >= maxCaptionLength && countMatches(text, letters) >= minLetters }
}

/** Whether OCR has to look at a page with this layer and these drawings. */
export function requiresOcr(layer: TextLayer, drawn: { texts: number; imageShare: number; segments: number }): boolean {
  if (!layer.isTrusted) return true
  if (layer.isConclusive) return false
  const known = countMatches(layer.text, letters)
  if (known >= minLetters) return drawn.imageShare > 0.7
  if (known === 0 && drawn.texts > 0) return true
  return drawn.imageShare > 0.005 || drawn.segments > maxFrameSegments
}

const tokenize = (line: string): string[] => line.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []

/** Joins a page's own text and that of OCR: all of the first, and of the second the lines that say something new. */
export function joinTexts(own: string, recognized: string): string {
  if (own.trim() === '') return recognized
  const known = new Set(tokenize(own))
  const newLines = recognized.split('\n').filter((line) => {
    const words = tokenize(line)
    return words.length > 0 && !words.every((word) => known.has(word))
  })
  return newLines.length > 0 ? `${own}\n${newLines.join('\n')}` : own
}
