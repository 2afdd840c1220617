/** Detection of the languages of a text by the frequencies of its n-grams. */
import { eld } from 'eld/extrasmall'

export interface DetectedLanguages {
  /** ISO 639-1, most frequent first; empty if none is certain */
  readonly languages: readonly string[]
  /** letters of the examined parts of the text */
  readonly letters: number
  /** highest score of a language in these parts, 0 to 1: at least 0.6 for text of a known language, at most 0.5 for letters of another script */
  readonly score: number
}

/** Length of the parts that are classified, in characters. The detector reads 350 bytes. */
const partLength = 300
/** Minimum letters of a text. Of two words alone, the detected language is wrong in one of six cases. */
const minLetters = 24
/** Score from which a language is certain: three quarters of that of faultless text. */
const minScore = 0.58
/**
 * Minimum score by which another language of a part must exceed the language of the page. Related languages, such as Czech and Slovak, differ by
 * less.
 */
const minMargin = 0.08
/** Minimum share and letters of a second language of a page. Names and addresses have less. */
const secondary = { share: 0.2, letters: 120 }

/**
 * Parts of a long text that are examined first, one from each sixth of the text. The others, which take half of the time to read a text, are only
 * examined if these disagree.
 */
const firstParts = 6

interface Part {
  readonly letters: number
  /** scores of languages, best first */
  readonly scores: Readonly<Record<string, number>>
}

/** Detects the languages of a text from up to `maxParts` parts of it. */
export function detectLanguages(text: string, maxParts = 12): DetectedLanguages {
  const chosen = sample(splitText(text), maxParts)
  const isEarly = (index: number) => chosen.length < 2 * firstParts || index % 2 === 1
  const parts = chosen.filter((_, index) => isEarly(index)).map(scorePart)
  const { isUniform, ...detected } = summarize(parts)
  if (isUniform || parts.length === chosen.length) return detected
  parts.push(...chosen.filter((_, index) => !isEarly(index)).map(scorePart))
  const { isUniform: _, ...all } = summarize(parts)
  return all
}

const scorePart = (text: string): Part => ({ letters: countLetters(text), scores: eld.detect(text).getScores() })

/** Returns the languages of some parts. `isUniform`: all parts have the same certain language, or none has a certain one. */
function summarize(parts: readonly Part[]): DetectedLanguages & { isUniform: boolean } {
  const letters = parts.reduce((sum, part) => sum + part.letters, 0)
  const totals = new Map<string, number>()
  for (const part of parts)
    for (const [language, score] of Object.entries(part.scores)) totals.set(language, (totals.get(language) ?? 0) + score * part.letters)
  const [first = '', total = 0] = [...totals].sort(([, one], [, other]) => other - one)[0] ?? []
  const score = letters === 0 ? 0 : total / letters
  const shares = new Map<string, number>()
  let certainParts = 0
  for (const part of parts) {
    const [best = '', bestScore = 0] = Object.entries(part.scores)[0] ?? []
    const language = bestScore - (part.scores[first] ?? 0) >= minMargin ? best : first
    if ((part.scores[language] ?? 0) < minScore) continue
    shares.set(language, (shares.get(language) ?? 0) + part.letters)
    certainParts++
  }
  const found = [...shares].sort(([, one], [, other]) => other - one)
  const certain = found.reduce((sum, [, count]) => sum + count, 0)
  const languages = found
    .filter(([, count], index) => index === 0 || (count >= secondary.letters && count >= secondary.share * certain))
    .map(([language]) => language)
  const isUniform = found.length === 0 || (found.length === 1 && certainParts === parts.length)
  return { languages: letters < minLetters || certain < letters / 4 ? [] : languages, letters, score, isUniform }
}

/** Divides a text at white space into parts of about the same length. */
function splitText(text: string): string[] {
  const parts: string[] = []
  for (let start = 0; start < text.length; ) {
    const space = text.slice(start + partLength, start + 2 * partLength).search(/\s/)
    const end = start + partLength + Math.max(0, space)
    parts.push(text.slice(start, end))
    start = end
  }
  return parts
}

/** Returns at most `count` of the items, evenly distributed. */
const sample = <T>(items: readonly T[], count: number): readonly T[] =>
  items.length <= count
    ? items
    : Array.from({ length: count }, (_, index) => items[Math.floor(((index + 0.5) * items.length) / count)] as T)

const countLetters = (text: string): number => text.match(/\p{L}/gu)?.length ?? 0
