/** Recognized words. */
import type { OcrText, OcrWord } from '../ports/ocr-engine.ts'

/** Tesseract divides Chinese and Japanese, which have no spaces, into parts of any length. */
const spacelessBetween = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}]\0[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}]/u

/** Returns the separator between two words of a line. */
const separator = (last: OcrWord, word: OcrWord): '' | ' ' =>
  spacelessBetween.test(`${[...last.text].at(-1)}\0${[...word.text][0]}`) ? '' : ' '

/** Joins words to lines and separates paragraphs by an empty line. Weighs their confidence by letters. */
export function joinWords(words: readonly OcrWord[]): OcrText {
  let text = ''
  let characters = 0
  let confidence = 0
  let last: OcrWord | undefined
  for (const word of words) {
    if (last) text += word.line === last.line ? separator(last, word) : word.paragraph === last.paragraph ? '\n' : '\n\n'
    text += word.text
    last = word
    const length = [...word.text].length
    characters += length
    confidence += length * word.confidence
  }
  return { text, confidence: characters === 0 ? null : confidence / characters, words }
}

/**
 * Returns the direction of the lines in an image, clockwise in degrees: 0, 90 or -90. Tesseract also recognizes vertical lines. Their words are high
 * and narrow and follow each other downwards or upwards.
 */
export function lineDirection(words: readonly OcrWord[]): 0 | 90 | -90 {
  let level = 0
  let upright = 0
  let down = 0
  let last: OcrWord | undefined
  for (const word of words) {
    const { width, height, top } = word.box
    // Words of one or two letters are as high as they are wide.
    if ([...word.text].length > 2) {
      if (height > width) upright++
      else level++
    }
    if (last?.line === word.line) down += Math.sign(top - last.box.top)
    last = word
  }
  return upright <= level ? 0 : down < 0 ? -90 : 90
}
