/** Where text is gathered: endless markup must not become endless text. */

/** characters of text that one file may have */
export const maxTextLength = 20_000_000

export interface TextSink {
  add(text: string): void
  /** True once more came than fits. */
  readonly isFull: boolean
  text(): string
}

/** A little more than fits, so that whoever cuts the text at `maxText` sees that it was too long. */
const overflowLength = 1000

/** Opens a sink for at most `most` characters; what comes later is dropped. */
export function createTextSink(maxLength = maxTextLength + overflowLength): TextSink {
  const parts: string[] = []
  let length = 0
  return {
    add(text) {
      if (length >= maxLength || text === '') return
      parts.push(length + text.length > maxLength ? text.slice(0, maxLength - length) : text)
      length += text.length
    },
    get isFull() {
      return length >= maxLength
    },
    text: () => parts.join(''),
  }
}
