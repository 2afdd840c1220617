/** Choice of the OCR language of each page, for documents whose language is `auto`. */
import type { OcrEngine, OcrSetup, PageImage } from '../../ports/ocr-engine.ts'
import { openPassBudget, type PassBudget } from '../pass-budget.ts'
import { scriptOf, tesseractCode } from './codes.ts'
import { detectLanguages } from './detect.ts'
import { densestStrip } from './strip.ts'

interface Recognized {
  readonly text: string
  readonly confidence: number | null
}

export interface LanguageChooser {
  /**
   * Recognizes a page in the languages of its text. `recognize` does it in installed languages (codes joined by `+`). Returns its result with the
   * languages of the text, including languages without a model. A language is `und` or `und-` and a script if no installed model reads its letters.
   * null: too little text. Passes for which `budget` has no time are left out.
   */
  recognize<T extends Recognized>(
    page: PageImage,
    recognize: (language: string) => Promise<T>,
    budget?: PassBudget,
  ): Promise<T & { language: string | null }>
}

/** Number of consecutive pages in one language after which the next page is expected in it too. Detection on a strip costs a twentieth of a page. */
const minRepeats = 2
/** Text of a foreign script has garbage for words: a confidence of 0.2 to 0.4, and usually low scores of all languages. */
const foreign = { minLetters: 80, maxScore: 0.5, maxConfidence: 0.65, certainConfidence: 0.45 }
/** Confidence of a model that fits the script. */
const minConfidence = 0.6
/** Letters of garbage from which a page is text in an unknown script. Pictures and stains have less. */
const minGarbageLetters = 300

/** Opens a chooser. It remembers the languages of the last pages. */
export function openLanguageChooser(engine: OcrEngine, installed: OcrSetup['languages']): LanguageChooser {
  const recent: string[] = []
  const latin = ['eng', ...installed.keys()].find((code) => installed.has(code) && scriptOf(code) === 'Latn')
  const fallback = latin ?? [...installed.keys()][0] ?? 'eng'

  /** Returns the installed languages of a text, joined by `+`, and all of them. */
  function identify({ text, confidence }: Recognized) {
    const { languages, letters, score } = detectLanguages(text)
    const isGarbage = (confidence ?? 1) < foreign.certainConfidence
    const codes = isGarbage ? [] : languages.map((language) => tesseractCode(language, installed))
    const isUnknown = codes.length === 0 && score < foreign.maxScore && (confidence ?? 1) < foreign.maxConfidence
    const isForeign = letters >= foreign.minLetters && (isGarbage || isUnknown)
    return { codes, isForeign, letters, usable: codes.filter((code) => installed.has(code)).join('+') }
  }

  const recognizeStrip = (strip: PageImage, language: string) => engine.recognize(strip, language, { layout: 'auto' })

  /** Returns the language that the page is probably in. */
  async function guess(page: PageImage): Promise<string> {
    const last = recent[0]
    if (installed.size === 1) return fallback
    if (last !== undefined && recent.length >= minRepeats && recent.every((language) => language === last)) return last
    const strip = densestStrip(page)
    if (strip === null) return last ?? fallback
    const { usable, isForeign } = identify(await recognizeStrip(strip, fallback))
    return usable || (isForeign ? await findByScript(strip, fallback) : null) || last || fallback
  }

  /** Tries one model of each other script on a strip. Returns the language of its text; null if none fits. */
  async function findByScript(strip: PageImage, tried: string): Promise<string | null> {
    const codes = [...recent, ...installed.keys()].flatMap((language) => language.split('+'))
    const byScript = new Map(codes.toReversed().map((code) => [scriptOf(code), code]))
    byScript.delete(null)
    byScript.delete(scriptOf(tried.split('+')[0] ?? ''))
    for (const code of byScript.values()) {
      const result = await recognizeStrip(strip, code)
      const { usable, codes: found } = identify(result)
      if ((result.confidence ?? 0) >= minConfidence && found[0] && scriptOf(found[0]) === scriptOf(code)) return usable || code
    }
    return null
  }

  return {
    async recognize(page, recognize, budget = openPassBudget()) {
      let used = await guess(page)
      const startMs = budget.leftMs()
      let result = await recognize(used)
      const hasTime = () => budget.hasTimeFor(1.5 * (startMs - budget.leftMs()))
      let found = identify(result)
      let better = found.usable
      if (found.isForeign && hasTime()) better = (await findByScript(densestStrip(page) ?? page, used)) ?? ''
      if (!better.split('+').every((code) => code === '' || used.split('+').includes(code)) && hasTime()) {
        used = better
        result = await recognize(used)
        found = identify(result)
      }
      if (found.codes.length > 0) {
        recent.unshift(used)
        recent.length = Math.min(recent.length, minRepeats)
      }
      return { ...result, language: found.codes.join('+') || (found.isForeign ? await nameScript(page, found.letters) : null) }
    },
  }

  /** Returns the language of a page that no installed model reads: `und-` and its script, `und` without a model that detects scripts. */
  async function nameScript(page: PageImage, letters: number): Promise<string | null> {
    if (letters < minGarbageLetters) return null
    const script = await engine.detectScript(page)
    if (script === null) return 'und'
    return [...installed.keys()].some((code) => scriptOf(code) === script) ? null : `und-${script}`
  }
}
