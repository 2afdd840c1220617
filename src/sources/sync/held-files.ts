/** Listed files whose changes wait for their approval, compressed: 20 to 60 bytes each. */
import { deserialize, serialize } from 'node:v8'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { SourceFile } from '../../ports/source-type.ts'

export interface HeldFiles {
  /** number of known files; null: not counted yet */
  known: number | null
  /** number of unchanged files at which the run is checked for approval again */
  nextCheck: number
  readonly count: number
  add(files: readonly SourceFile[]): void
  batches(): Generator<SourceFile[]>
}

export function holdFiles(): HeldFiles {
  const compressed: Buffer[] = []
  let count = 0
  return {
    known: null,
    nextCheck: 0,
    get count() {
      return count
    },
    add(files) {
      if (files.length === 0) return
      count += files.length
      compressed.push(deflateRawSync(serialize(files), { level: 1 }))
    },
    *batches() {
      for (const batch of compressed) yield deserialize(inflateRawSync(batch)) as SourceFile[]
    },
  }
}
