/** Reads a text line by line: it may be longer than a string can be (512 MB). */

/** Yields the lines of a text in UTF-8 without their line ends. Throws the error of `onLong` for a line of more than `maxLength` characters. */
export async function* readTextLines(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxLength = Number.POSITIVE_INFINITY,
  onLong: () => Error = () => new RangeError(`a line has more than ${maxLength} characters`),
): AsyncGenerator<string> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of source) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = parts.pop() ?? ''
    if (rest.length > maxLength) throw onLong()
    yield* parts
  }
  if (rest !== '') yield rest
}
