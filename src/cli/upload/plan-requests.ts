/** In which requests files are uploaded, and which are asked about together. */
import type { FoundFile } from './find-files.ts'

/** Files whose SHA-256 the server is asked about with one call, before the first of them is sent. */
export interface LookupWindow {
  readonly files: readonly FoundFile[]
  /** documents by SHA-256, and the sums themselves by path; asked for once */
  known: Promise<KnownDocuments> | null
}

export interface KnownDocuments {
  readonly sums: ReadonlyMap<string, string>
  readonly ids: ReadonlyMap<string, string>
}

/** Files that go into one request, unless the server has them. */
export interface UploadRequest {
  readonly files: readonly FoundFile[]
  readonly window: LookupWindow
}

const mebibyteBytes = 1 << 20

/** A file up to this size (bytes) may share a request with others. */
export const smallFileBytes = 8 * mebibyteBytes
/** Of one shared request; the server takes ten files, and proxies before it about this many bytes. */
const maxPerRequest = { files: 10, bytes: 90 * mebibyteBytes }
/** What is read before its first file is sent. */
const maxPerWindow = { files: 100, bytes: 256 * mebibyteBytes }

/** `isShared` false: each file has a request of its own. */
export function planRequests(files: readonly FoundFile[], isShared: boolean): UploadRequest[] {
  return splitByLimits(files, maxPerWindow).flatMap((part) => {
    const window: LookupWindow = { files: part, known: null }
    const isSmall = ({ size, error: problem }: FoundFile) => isShared && size !== null && size > 0 && size < smallFileBytes && !problem
    const together = splitByLimits(part.filter(isSmall), maxPerRequest)
    const alone = part.filter((file) => !isSmall(file)).map((file) => [file])
    const order = (group: readonly FoundFile[]) => part.indexOf(group[0] as FoundFile)
    return [...together, ...alone].sort((one, other) => order(one) - order(other)).map((group) => ({ files: group, window }))
  })
}

/** Parts in their order, none over the limits but a single file that is. */
function splitByLimits(files: readonly FoundFile[], most: { files: number; bytes: number }): FoundFile[][] {
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
