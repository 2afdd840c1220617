/** Readers of archives: the names of their members with their contents, as one document. */
import type { ArchiveReader } from 'libarchive-wasm'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { ByteSource, OpenedDocument } from '../opened-document.ts'
import { openWithParts, type PartTools } from '../parts.ts'
import { readTarMembers } from './tar.ts'
import { openArchive } from './zip.ts'

/** Maximum members of an archive, and bytes that it unpacks to. Further members are not listed. */
const maxMembers = 50_000
const maxTotalBytes = 1024 * 1024 * 1024
/** Maximum bytes of a member. Larger ones are listed only. */
export const maxMemberBytes = 256 * 1024 * 1024

/** Reads the members of an archive, each by its position. */
interface MemberReader {
  /** Returns the members in their order. Stops at the limits. */
  list(): Iterable<{ name: string; size: number; position: number }>
  read(position: number): Uint8Array
  /** Whether not even the names are readable without a password. */
  hasEncryptedList?(): boolean
}

/** Opens a ZIP archive. Throws ReadFailure FILE_CORRUPT, FILE_TOO_COMPLEX. */
export function openZip(source: ByteSource, tools: PartTools): OpenedDocument {
  const archive = openArchive(source.read())
  return openMembers(tools, () => ({
    *list() {
      for (const [position, { name, size }] of archive.members.entries()) yield { name, size, position }
    },
    read: (position) => archive.members[position]?.read() ?? new Uint8Array(),
  }))
}

/** Opens a tar archive that is not compressed. */
export function openTar(bytes: Uint8Array, tools: PartTools): OpenedDocument {
  const found: Uint8Array[] = []
  return openMembers(tools, () => ({
    *list() {
      for (const { name, data } of readTarMembers(bytes)) {
        if (found.push(data) > maxMembers) return
        yield { name, size: data.length, position: found.length - 1 }
      }
    },
    read: (position) => found[position] ?? new Uint8Array(),
  }))
}

/** Opens an archive of any other format: tar with other compressions than gzip, 7z, rar, cab, cpio, ar. Returns null for a file that is no archive. */
export async function openOtherArchive(source: ByteSource, tools: PartTools): Promise<OpenedDocument | null> {
  // Imported on demand, because few files are archives.
  const { libarchiveWasm, ArchiveReader } = await import('libarchive-wasm')
  const library = await libarchiveWasm()
  const bytes = source.read()
  const start = () => new ArchiveReader(library, new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length))
  try {
    start().free()
  } catch {
    return null
  }
  return openMembers(tools, () => streamMembers(start))
}

/** Reads members in their order. Starts again for an earlier member, because compressed archives have no index. */
export function streamMembers(start: () => ArchiveReader): MemberReader {
  let reader: ArchiveReader | null = null
  let next = 0
  let size = 0
  /** whether the data of the last member were read, or the archive has ended */
  let isConsumed = false

  function advance() {
    const entry = onFailure(() => reader?.nextEntry() ?? null)
    isConsumed = !entry
    if (!entry) return null
    next++
    size = entry.getSize()
    return entry
  }
  return {
    *list() {
      reader = onFailure(start)
      next = 0
      let total = 0
      for (let entry = advance(); entry; entry = advance()) {
        const isFile = entry.getFiletype() === 'File'
        if (isFile) yield { name: entry.getPathname() || `member ${next}`, size, position: next - 1 }
        total += size
        if (next >= maxMembers || total > maxTotalBytes) return
      }
    },
    hasEncryptedList: () => reader?.hasEncryptedData() === true,
    read(position) {
      if (!reader || next > position + 1 || (next === position + 1 && isConsumed)) {
        reader?.free()
        reader = onFailure(start)
        next = 0
      }
      while (next <= position) if (!advance()) throw new ReadFailure('FILE_CORRUPT', 'A member of the archive is missing.')
      isConsumed = true
      const data = onFailure(() => reader?.readData(size))
      return new Uint8Array(data ?? [])
    },
  }
}

/** Converts errors of the library, which have no types. */
function onFailure<T>(call: () => T): T {
  try {
    return call()
  } catch (problem) {
    const message = problem instanceof Error ? problem.message : String(problem)
    throw new ReadFailure(/encrypt|passphrase/i.test(message) ? 'FILE_ENCRYPTED' : 'FILE_CORRUPT', `The archive is damaged: ${message}`)
  }
}

/** Opens an archive by its members. A failure after the first member ends the list. */
function openMembers(tools: PartTools, open: () => MemberReader): OpenedDocument {
  return openWithParts(tools, async (collector) => {
    const members = open()
    let count = 0
    try {
      for (const { name, size, position } of members.list()) {
        count++
        if (collector.isFull) break
        if (name.endsWith('/') || isSystemFile(name)) continue
        if (size > maxMemberBytes) collector.addText(`${name}\n\n`)
        else await collector.addPart(memberSource(name, size, () => members.read(position)))
      }
    } catch (problem) {
      if (count === 0) throw problem
    }
    if (count === 0 && members.hasEncryptedList?.()) throw new ReadFailure('FILE_ENCRYPTED')
    return { metadata: { member_count: count } }
  })
}

/** Files that macOS and Windows add to folders. */
const isSystemFile = (name: string): boolean => /(^|\/)(__MACOSX\/|\.DS_Store$|Thumbs\.db$|desktop\.ini$)/.test(name)

/** Returns a source that unpacks when it is read. Keeps no bytes, because there may be many members. */
export function memberSource(filename: string, size: number, unpack: () => Uint8Array): ByteSource {
  let last: WeakRef<Uint8Array> | undefined
  const bytes = (): Uint8Array => {
    const unpacked = last?.deref() ?? unpack()
    last = new WeakRef(unpacked)
    return unpacked
  }
  return { filename, size, read: () => new Uint8Array(bytes()), head: (length) => new Uint8Array(bytes().subarray(0, length)) }
}
