/** Keeps lines in a temporary file, because the manifest of a large export does not fit into memory. */
import type { FileHandle } from 'node:fs/promises'
import { openUnnamedFile } from '../../unnamed-file.ts'

/** Place of a line in the file, in bytes. */
export interface LinePlace {
  readonly offset: number
  readonly length: number
}

export interface LineSpool {
  /** bytes of all lines, with their line breaks */
  readonly size: number
  /** Adds a line. Calls may overlap. */
  append(line: string): Promise<LinePlace>
  /** Returns the lines at the places as one buffer, with their line breaks. */
  read(places: readonly LinePlace[]): Promise<Buffer>
  close(): Promise<void>
}

/** Opens an empty spool. `path`: of its temporary file, which has no name afterwards. */
export const openLineSpool = async (path: string): Promise<LineSpool> => createLineSpool(await openUnnamedFile(path))

/** Returns a spool over an empty file that is open for reading and writing. Closing the spool closes the file. */
export function createLineSpool(file: FileHandle): LineSpool {
  let size = 0
  const readOne = async ({ offset, length }: LinePlace): Promise<Buffer> => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset)
    if (bytesRead !== length) throw new Error(`cannot read ${length} bytes at ${offset} of the temporary file`)
    return buffer
  }
  return {
    get size() {
      return size
    },
    async append(line) {
      const bytes = Buffer.from(`${line}\n`)
      const place = { offset: size, length: bytes.length }
      // Before the write: the next call needs another place.
      size += bytes.length
      const { bytesWritten } = await file.write(bytes, 0, bytes.length, place.offset)
      if (bytesWritten !== bytes.length)
        throw Object.assign(new Error('cannot write the temporary file of the manifest: no space left'), { code: 'ENOSPC' })
      return place
    },
    read: async (places) => Buffer.concat(await Promise.all(places.map(readOne))),
    close: () => file.close(),
  }
}
