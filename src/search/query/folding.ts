/** Forms of texts that conditions on values compare. */
import { normalizeText } from './tokenizer.ts'

/** Folds a value for comparisons of its parts: without case, accents and kinds of spaces. */
export const foldSpaces = (text: string): string => normalizeText(text).replace(/\s+/g, ' ')

/** Folds a value for comparisons of the whole: without case. In lower case, Σ is σ or ς, and İ is i with a dot. */
export const foldExact = (text: string): string => text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ').replaceAll('i\u0307', 'i')
