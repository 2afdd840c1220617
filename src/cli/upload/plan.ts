/** In which requests files are uploaded, and which are asked about together. */
import type { FoundFile } from './find-files.ts'

/** Files whose SHA-256 the server is asked about with one call, before the first of them is sent. */
export interface Window {
  readonly files: readonly FoundFile[]
  /** documents by SHA-256, and the sums themselves by path; asked for once */
  answer: Promise<WindowAnswer> | null
}

export interface WindowAnswer {
  readonly sums: ReadonlyMap<string, string>
  readonly ids: ReadonlyMap<string, string>
}

/** Files that go into one request, unless the server has them. */
export interface Group {
  readonly files: readonly FoundFile[]
  readonly window: Window
}

const mebibyte = 1 << 20

/** A file up to this size (bytes) may share a request with others. */
export const smallFile = 8 * mebibyte
/** Of one shared request; the server takes ten files, and proxies before it about this many bytes. */
const shared = { files: 10, bytes: 90 * mebibyte }
/** What is read before its first file is sent. */
const perWindow = { files: 100, bytes: 256 * mebibyte }

/** `isShared` false: each file has a request of its own. */
export function plan(files: readonly FoundFile[], isShared: boolean): Group[] {
  return cut(files, perWindow).flatMap((part) => {
    const window: Window = { files: part, answer: null }
    const isSmall = ({ size, problem }: FoundFile) => isShared && size !== null && size > 0 && size < smallFile && !problem
    const together = cut(part.filter(isSmall), shared)
    const alone = part.filter((file) => !isSmall(file)).map((file) => [file])
    const order = (group: readonly FoundFile[]) => part.indexOf(group[0] as FoundFile)
    return [...together, ...alone].sort((one, other) => order(one) - order(other)).map((group) => ({ files: group, window }))
  })
}

/** Parts in their order, none over the limits but a single file that is. */
function cut(files: readonly FoundFile[], most: { files: number; bytes: number }): FoundFile[][] {
  const parts: FoundFile[][] = []
  let bytes = 0
  for (const file of files) {
    const last = parts.at(-1)
    const size = file.size ?? 0
    if (last && last.length < most.files && bytes + size <= most.bytes) {
      last.push(file)
      bytes += size
    } else {
      parts.push([file])
      bytes = size
    }
  }
  return parts
}
