/** Files in the text of mail, as programs before MIME sent them (uuencode, POSIX.1-2017). */

export interface EncodedFile {
  readonly filename: string
  readonly bytes: Uint8Array
}

const firstLine = /^begin [0-7]{3,4} (\S.*?)\s*$/
const lastLine = /^end\s*$/

/** Returns the files in a text, and the text without them. A file without its last line ends with the text. */
export function takeUuencoded(text: string): { text: string; files: EncodedFile[] } {
  const files: EncodedFile[] = []
  if (!/^begin [0-7]{3,4} /m.test(text)) return { text, files }
  const rest: string[] = []
  let open: { filename: string; chunks: Uint8Array[]; lines: string[] } | null = null
  const end = (): void => {
    if (open && open.chunks.length > 0) files.push({ filename: open.filename, bytes: Buffer.concat(open.chunks) })
    else rest.push(...(open?.lines ?? []))
    open = null
  }
  for (const line of text.split(/\r?\n/)) {
    const chunk = open && !lastLine.test(line) ? decodeLine(line) : null
    if (open && chunk) {
      open.chunks.push(chunk)
      continue
    }
    const isEnd: boolean = open !== null && lastLine.test(line)
    end()
    const filename: string | undefined = isEnd ? undefined : firstLine.exec(line)?.[1]
    if (filename !== undefined) open = { filename, chunks: [], lines: [line] }
    else if (!isEnd) rest.push(line)
  }
  end()
  return { text: rest.join('\n'), files }
}

/** Returns the bytes of a line; null for any other line. The first character is their number; programs leave out spaces at the end and add a checksum. */
function decodeLine(line: string): Uint8Array | null {
  const count = line === '' ? 0 : (line.charCodeAt(0) - 32) & 63
  const data = line.slice(1).padEnd(Math.ceil(count / 3) * 4)
  if (!/^[ -`]*$/.test(line) || data.trimEnd().length > Math.ceil(count / 3) * 4 + 1) return null
  const bytes = Buffer.alloc(Math.ceil(count / 3) * 3)
  for (let at = 0; at * 3 < count; at++) {
    let bits = 0
    for (let i = 0; i < 4; i++) bits = (bits << 6) | ((data.charCodeAt(at * 4 + i) - 32) & 63)
    bytes.writeUIntBE(bits, at * 3, 3)
  }
  return bytes.subarray(0, count)
}
