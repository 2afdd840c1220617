/** Whether a backup is whole: every byte of it is read and held against its checksum. */
import { skip } from './bytes.ts'
import { BackupDamaged, type Manifest } from './manifest.ts'
import { readBackup } from './read.ts'
import type { Source } from './source.ts'

export interface Verdict {
  /** null: it ends too early, or cannot be understood */
  manifest: Manifest | null
  problems: { path: string; problem: string }[]
}

/** Never throws for what is wrong with the backup. */
export async function verify(source: Source, onProgress: (done: number, total: number) => void): Promise<Verdict> {
  const problems: Verdict['problems'] = []
  let [done, total] = [0, 0]
  try {
    const manifest = await readBackup(source, {
      async head({ files }) {
        total = files
      },
      table: (_, bytes) => skip(bytes),
      async file(_, bytes) {
        await skip(bytes)
        onProgress(++done, total)
      },
      secret: (_, bytes) => skip(bytes),
      problem: (path, problem) => problems.push({ path, problem }),
    })
    return { manifest, problems }
  } catch (error) {
    if (!(error instanceof BackupDamaged)) throw error
    return { manifest: null, problems: [...problems, { path: source.name, problem: error.message }] }
  }
}
