/** Quality of the text layer of a page, and its combination with the text of OCR. */
import { normalizeWhitespace } from './readers/decode.ts'

/** Minimum letters and digits of a complete text layer. */
const minLetters = 32
/** Maximum length of the text of a page that consists of an image with a caption. */
const maxCaptionLength = 200
const maxGarbageShare = 0.1
/** Maximum number of path segments of rules and frames. A page with more segments may contain text drawn as outlines. */
const maxFrameSegments = 60

const letters = /[\p{L}\p{N}]/gu
/** Glyphs without a character. U+FFFE is a hyphen at a line end. */
const garbage = /[[\ufffd\p{Co}\p{Cn}]--\ufffe]|[\p{Cc}--[\n\t\r]]/gv
/** A private character that stands alone is a bullet or an icon. */
const icon = /(?<![^\s])\p{Co}(?![^\s])/gu

const countMatches = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0

/** Assessed text layer of a page. */
export interface TextLayer {
  /** text without garbage characters */
  readonly text: string
  /** false: too much garbage, as from a font without a character map */
  readonly isTrusted: boolean
  /** Whether glyphs without a character are missing in the text. */
  readonly hasGaps: boolean
  /** whether the text suffices to skip OCR of the page */
  readonly isConclusive: boolean
}

/** Swaps the bytes of all characters if most have a low byte of 0. No language has such text, but PDFs with a wrong character map do. */
function fixByteOrder(text: string): string {
  const swapped = text.match(/[^\p{ASCII}\s]/gu)?.filter((letter) => (letter.charCodeAt(0) & 0xff) === 0).length ?? 0
  if (swapped < 4 || swapped < 0.8 * text.replace(/\s/g, '').length) return text
  return text.replace(/[^\p{ASCII}]/gu, (letter) =>
    (letter.charCodeAt(0) & 0xff) === 0 ? String.fromCharCode(letter.charCodeAt(0) >> 8) : letter,
  )
}

/** Assesses the text layer of a page. `isMapped` is false if its letters are codes of glyphs. */
export function assessTextLayer(stored: string, isMapped = true): TextLayer {
  const raw = fixByteOrder(stored).replace(icon, '•')
  const bad = countMatches(raw, garbage)
  const visible = raw.replace(/\s/g, '').length
  const isTrusted = isMapped && (visible === 0 || bad / visible <= maxGarbageShare)
  const text = normalizeWhitespace(bad > 0 ? raw.replace(garbage, '') : raw)
  const hasGaps = bad > 0
  return {
    text,
    isTrusted,
    hasGaps,
    isConclusive: isTrusted && !hasGaps && visible >= maxCaptionLength && countMatches(text, letters) >= minLetters,
  }
}

/** Returns whether a page with this text layer and these objects needs OCR. */
export function requiresOcr(layer: TextLayer, survey: { texts: number; imageShare: number; segments: number }): boolean {
  if (!layer.isTrusted || layer.hasGaps) return true
  if (layer.isConclusive) return false
  const letterCount = countMatches(layer.text, letters)
  if (letterCount >= minLetters) return survey.imageShare > 0.7
  if (letterCount === 0 && survey.texts > 0) return true
  return survey.imageShare > 0.005 || survey.segments > maxFrameSegments
}

const tokenize = (line: string): string[] => line.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []

/** Appends the lines of OCR with new words to the text layer. */
export function joinTexts(layer: string, recognized: string): string {
  if (layer.trim() === '') return recognized
  const layerWords = new Set(tokenize(layer))
  const newLines = recognized.split('\n').filter((line) => {
    const words = tokenize(line)
    return words.length > 0 && !words.every((word) => layerWords.has(word))
  })
  return newLines.length > 0 ? `${layer}\n${newLines.join('\n')}` : layer
}
