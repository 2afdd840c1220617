/** Listed files whose changes wait for their approval, compressed: 20 to 60 bytes each. */
import { deserialize, serialize } from 'node:v8'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { SourceFailure, type SourceFile } from '../../ports/source-type.ts'

export interface HeldFiles {
  /** number of known files; null: not counted yet */
  known: number | null
  /** number of files seen unchanged at which the run is checked for approval again */
  nextCheck: number
  readonly count: number
  add(files: readonly SourceFile[]): void
  batches(): Generator<SourceFile[]>
}

/** Maximum memory for the files of one run, in bytes. A million files with names of ordinary length take a quarter of it. */
const maxBytes = 256 << 20

/** Throws SourceFailure SOURCE_PROTOCOL from add() for an endless list. */
export function holdFiles(): HeldFiles {
  const compressed: Buffer[] = []
  let count = 0
  let bytes = 0
  return {
    known: null,
    nextCheck: 0,
    get count() {
      return count
    },
    add(files) {
      if (files.length === 0) return
      count += files.length
      const batch = deflateRawSync(serialize(files), { level: 1 })
      bytes += batch.length
      if (bytes > maxBytes)
        throw new SourceFailure(
          'SOURCE_PROTOCOL',
          `The source lists ${count} changed files before any known one, more than can be compared.`,
        )
      compressed.push(batch)
    },
    *batches() {
      for (const batch of compressed) yield deserialize(inflateRawSync(batch)) as SourceFile[]
    },
  }
}
