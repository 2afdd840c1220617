/** Words of a value that texts contain as a substring. */
import { partsOf } from './parser.ts'
import { normalizeText, type Token, tokenize } from './tokenizer.ts'

export interface SubstringWords {
  readonly parts: readonly Token[]
  /** Whether a matching word may extend beyond the first or last one. */
  readonly isOpenLeft: boolean
  readonly isOpenRight: boolean
  /** Whether the value consists of letters and digits only. */
  readonly isAlphanumeric: boolean
}

/** Divides a substring into words. */
export function wordsOfSubstring(value: string): SubstringWords {
  const parts = partsOf([...tokenize(value)])
  const [first, last] = [parts[0], parts.at(-1)]
  return {
    parts,
    isOpenLeft: first?.form === 'word' && normalizeText(value.slice(0, first.start)) === '',
    isOpenRight: last?.form === 'last' || (last?.form === 'word' && normalizeText(value.slice(last.end)) === ''),
    isAlphanumeric: /^[\p{L}\p{N}\p{M}]+$/u.test(normalizeText(value)),
  }
}
