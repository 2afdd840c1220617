/** The words of a text in their order, two bytes each: shows that words stand in a row without a look at the words themselves. */
import type { Token } from '../../query/tokenizer.ts'

/** Words of a text that has an order: about three pages. Of a longer one it would fill the row, of which many are read. */
const maxWords = 1_250

/** FNV-1a of the UTF-16 units, folded once. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return (hash ^ (hash >>> 16)) >>> 0
}

const codeOf = (word: string): number => hashOf(word) & 0xffff

/** The order of a text in the making. */
export class Order {
  #codes: number[] | null = []

  /** All words of the text, in their order. */
  follow({ text, form }: Token): void {
    if (form === 'joined' || this.#codes === null) return
    if (this.#codes.length === maxWords) this.#codes = null
    else this.#codes.push(codeOf(text))
  }

  /** null: the text has too many words */
  bytes(): Buffer | null {
    return this.#codes && bytesOf(this.#codes)
  }
}

/** What the order of every text contains in which these words follow each other. Another text has it by chance, one of some millions. */
export const orderOf = (words: readonly string[]): Buffer => bytesOf(words.map(codeOf))

function bytesOf(codes: readonly number[]): Buffer {
  const bytes = Buffer.alloc(codes.length * 2)
  for (const [nth, code] of codes.entries()) bytes.writeUInt16BE(code, nth * 2)
  return bytes
}
