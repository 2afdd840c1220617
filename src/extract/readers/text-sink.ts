/** Where text is gathered: endless markup must not become endless text. */

/** characters of text that one file may have */
export const maxText = 20_000_000

export interface Sink {
  add(text: string): void
  /** True once more came than fits. */
  readonly isFull: boolean
  text(): string
}

/** A little more than fits, so that whoever cuts the text at `maxText` sees that it was too long. */
const overflow = 1000

/** Opens a sink for at most `most` characters; what comes later is dropped. */
export function openSink(most = maxText + overflow): Sink {
  const parts: string[] = []
  let length = 0
  return {
    add(text) {
      if (length >= most || text === '') return
      parts.push(length + text.length > most ? text.slice(0, most - length) : text)
      length += text.length
    },
    get isFull() {
      return length >= most
    },
    text: () => parts.join(''),
  }
}
