/** Streams answers above 1 MB (docs/api.md, "Large answers"). A text of 20 million characters is never in memory as a whole. */

/** String in a JSON answer. Its start is in memory and its rest is read while the start is sent. */
export class StreamedText {
  readonly head: string
  /** Chunks in UTF-8. A character may span two chunks. */
  readonly rest: () => AsyncIterable<Uint8Array>

  constructor(head: string, rest: () => AsyncIterable<Uint8Array>) {
    this.head = head
    this.rest = rest
  }
}

/** Answer in chunks. Each chunk is created when the previous one has been sent. */
export class StreamedAnswer {
  readonly chunks: AsyncIterable<string | Uint8Array>
  readonly headers: Readonly<Record<string, string>>

  constructor(chunks: AsyncIterable<string | Uint8Array>, headers: Readonly<Record<string, string>>) {
    this.chunks = chunks
    this.headers = headers
  }
}

export const jsonType = 'application/json;charset=UTF-8'

/** Returns a JSON answer from a value with StreamedText, or with asynchronous iterables as arrays. */
export const streamedJson = (value: object): StreamedAnswer => new StreamedAnswer(joinTokens(tokensOf(value)), { 'content-type': jsonType })

/** Minimum length of a chunk. Larger ones would delay other requests by milliseconds. */
const chunkLength = 1 << 17

/** Returns the JSON of a value in chunks. Arrays that are its direct members are serialized element by element. */
export function* jsonChunks(value: object): Generator<string> {
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  if (Array.isArray(value) || !members.some(([, member]) => Array.isArray(member))) return yield JSON.stringify(value)
  let text = ''
  for (const [memberIndex, [name, member]] of members.entries()) {
    text += `${memberIndex === 0 ? '{' : ','}${JSON.stringify(name)}:`
    if (!Array.isArray(member)) {
      text += JSON.stringify(member)
      continue
    }
    text += '['
    for (const [index, element] of member.entries()) {
      text += index === 0 ? JSON.stringify(element) : `,${JSON.stringify(element)}`
      if (text.length < chunkLength) continue
      yield text
      text = ''
    }
    text += ']'
  }
  yield `${text}}`
}

async function* tokensOf(value: unknown): AsyncGenerator<string> {
  if (value instanceof StreamedText) {
    yield `"${escapeInString(value.head)}`
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    for await (const bytes of value.rest())
      for (let from = 0; from < bytes.length; from += chunkLength)
        yield escapeInString(decoder.decode(bytes.subarray(from, from + chunkLength), { stream: true }))
    yield `${escapeInString(decoder.decode())}"`
  } else if (isList(value)) {
    let separator = '['
    for await (const element of value) {
      yield separator
      yield* tokensOf(element)
      separator = ','
    }
    yield separator === '[' ? '[]' : ']'
  } else if (hasStreamed(value)) {
    let separator = '{'
    for (const [name, member] of Object.entries(value)) {
      if (member === undefined) continue
      yield `${separator}${JSON.stringify(name)}:`
      yield* tokensOf(member)
      separator = ','
    }
    yield '}'
  } else yield JSON.stringify(value)
}

const isList = (value: unknown): value is AsyncIterable<unknown> | unknown[] =>
  Array.isArray(value) || (typeof value === 'object' && value !== null && Symbol.asyncIterator in value)

const hasStreamed = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.values(value).some((member) => member instanceof StreamedText || isList(member))

const escapeInString = (text: string): string => JSON.stringify(text).slice(1, -1)

/** Joins tokens to chunks that are worth a system call. */
async function* joinTokens(tokens: AsyncIterable<string>): AsyncGenerator<string> {
  let text = ''
  for await (const token of tokens) {
    text += token
    if (text.length < chunkLength) continue
    yield text
    text = ''
  }
  if (text !== '') yield text
}
