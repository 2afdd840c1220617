/** Answers that are too large to be held whole: JSON in pieces, written while it is read. */

/** A string of a JSON answer whose end is read while its beginning is sent. */
export class StreamedText {
  readonly head: string
  /** what follows, in UTF-8; a character may lie across two pieces */
  readonly rest: () => AsyncIterable<Uint8Array>

  constructor(head: string, rest: () => AsyncIterable<Uint8Array>) {
    this.head = head
    this.rest = rest
  }
}

/** An answer whose bytes are made one piece after the other, each once the piece before it is on its way. */
export class StreamedAnswer {
  readonly pieces: AsyncIterable<string | Uint8Array>
  readonly headers: Readonly<Record<string, string>>

  constructor(pieces: AsyncIterable<string | Uint8Array>, headers: Readonly<Record<string, string>>) {
    this.pieces = pieces
    this.headers = headers
  }
}

export const jsonType = 'application/json;charset=UTF-8'

/** An answer of JSON whose value holds StreamedText, or asynchronous iterables in the place of arrays. */
export const streamedJson = (value: object, headers: Readonly<Record<string, string>> = {}): StreamedAnswer =>
  new StreamedAnswer(joinPieces(tokensOf(value)), { 'content-type': jsonType, ...headers })

/** UTF-16 units that are made at once: more would hold up other requests for milliseconds. */
const pieceLength = 1 << 17

/** JSON of a value of an answer, in pieces; lists at its top are written entry by entry. */
export function* jsonPieces(value: object): Generator<string> {
  const entries = Object.entries(value)
  if (Array.isArray(value) || !entries.some(([, part]) => Array.isArray(part))) return yield JSON.stringify(value)
  let text = ''
  let before = '{'
  for (const [name, part] of entries) {
    if (part === undefined) continue
    text += `${before}${JSON.stringify(name)}:`
    before = ','
    if (!Array.isArray(part)) {
      text += JSON.stringify(part)
      continue
    }
    text += '['
    for (let at = 0; at < part.length; at++) {
      text += at === 0 ? JSON.stringify(part[at]) : `,${JSON.stringify(part[at])}`
      if (text.length < pieceLength) continue
      yield text
      text = ''
    }
    text += ']'
  }
  yield `${text}}`
}

async function* tokensOf(value: unknown): AsyncGenerator<string> {
  if (value instanceof StreamedText) {
    yield '"'
    for (const piece of splitText(value.head)) yield escapeInString(piece)
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    for await (const bytes of value.rest())
      for (let from = 0; from < bytes.length; from += pieceLength)
        yield escapeInString(decoder.decode(bytes.subarray(from, from + pieceLength), { stream: true }))
    yield `${escapeInString(decoder.decode())}"`
  } else if (isList(value)) {
    let before = '['
    for await (const entry of value) {
      yield before
      yield* tokensOf(entry)
      before = ','
    }
    yield before === '[' ? '[]' : ']'
  } else if (hasStreamed(value)) {
    let before = '{'
    for (const [name, part] of Object.entries(value)) {
      if (part === undefined) continue
      yield `${before}${JSON.stringify(name)}:`
      yield* tokensOf(part)
      before = ','
    }
    yield '}'
  } else yield JSON.stringify(value)
}

const isList = (value: unknown): value is AsyncIterable<unknown> | unknown[] =>
  Array.isArray(value) || (typeof value === 'object' && value !== null && Symbol.asyncIterator in value)

const hasStreamed = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.values(value).some((part) => part instanceof StreamedText || isList(part))

const escapeInString = (text: string): string => JSON.stringify(text).slice(1, -1)

/** Small pieces that together are the text; none ends inside a surrogate pair. */
function* splitText(text: string): Generator<string> {
  for (let from = 0; from < text.length; ) {
    let to = Math.min(from + pieceLength, text.length)
    if (to < text.length && text.codePointAt(to - 1)! > 0xffff) to--
    yield text.slice(from, to)
    from = to
  }
}

/** Joins small pieces, so that each write is worth its system call. */
async function* joinPieces(tokens: AsyncIterable<string>): AsyncGenerator<string> {
  let text = ''
  for await (const token of tokens) {
    text += token
    if (text.length < pieceLength) continue
    yield text
    text = ''
  }
  if (text !== '') yield text
}
