/** Distribution of files to upload requests and look-up windows. */
import type { FoundFile } from './find-files.ts'

/** Files whose SHA-256 are looked up by one request before any of them is sent. */
interface LookupWindow {
  readonly files: readonly FoundFile[]
  /** result of the look-up */
  known: Promise<KnownDocuments> | null
}

export interface KnownDocuments {
  /** checksums by path */
  readonly sums: ReadonlyMap<string, string>
  /** document ids by checksum */
  readonly ids: ReadonlyMap<string, string>
  /** larger files are not sent */
  readonly maxBytes: number
}

/** Files that share one upload request. */
export interface UploadRequest {
  readonly files: readonly FoundFile[]
  readonly window: LookupWindow
}

const mebibyteBytes = 1 << 20

/** Files below this size may share a request. */
export const smallFileBytes = 8 * mebibyteBytes
/** Limits of one request: the server accepts ten files, and proxies limit the size. */
const maxPerRequest = { files: 10, bytes: 90 * mebibyteBytes }
/** Limits of a window: all its files are read before the first is sent. */
const maxPerWindow = { files: 100, bytes: 256 * mebibyteBytes }

/** Plans the requests, one window at a time. `isShared` false: one request per file. */
export function* planRequests(files: Iterable<FoundFile>, { isShared }: { readonly isShared: boolean }): Generator<UploadRequest> {
  for (const part of splitByLimits(files, maxPerWindow)) {
    const window: LookupWindow = { files: part, known: null }
    const isSmall = ({ size, error }: FoundFile) => isShared && size !== null && size > 0 && size < smallFileBytes && !error
    const together = splitByLimits(part.filter(isSmall), maxPerRequest)
    const alone = part.filter((file) => !isSmall(file)).map((file) => [file])
    const order = (group: readonly FoundFile[]) => part.indexOf(group[0] as FoundFile)
    for (const group of [...together, ...alone].sort((one, other) => order(one) - order(other))) yield { files: group, window }
  }
}

/** Splits the files into parts within the limits. A single larger file is a part of its own. */
function* splitByLimits(files: Iterable<FoundFile>, limits: { files: number; bytes: number }): Generator<FoundFile[]> {
  let part: FoundFile[] = []
  let bytes = 0
  for (const file of files) {
    const size = file.size ?? 0
    if (part.length > 0 && (part.length === limits.files || bytes + size > limits.bytes)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(file)
    bytes += size
  }
  if (part.length > 0) yield part
}
