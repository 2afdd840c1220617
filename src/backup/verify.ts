/** Verifies a backup: every byte of it is read and compared with its checksum. */
import { skip } from './bytes.ts'
import { BackupDamaged, filePath, type Manifest } from './manifest.ts'
import { readBackup, type Visitor } from './read.ts'
import type { SignaturePolicy } from './signature.ts'
import type { Source } from './source.ts'

export interface Verdict {
  /** null: it ends too early, or cannot be understood */
  manifest: Manifest | null
  /** `origin`: the backup was damaged after it was made, or the stored file was damaged already when it was made */
  fix: string | null
  problems: { path: string; problem: string; origin: 'backup' | 'store' }[]
}

/** Reads it to its end. Damage is in the verdict and is never thrown. */
export async function verify(source: Source, policy: SignaturePolicy, onProgress: (done: number, total: number) => void): Promise<Verdict> {
  const problems: Verdict['problems'] = []
  let [done, total] = [0, 0]
  try {
    const visitor: Visitor = {
      async head({ files }) {
        total = files
      },
      table: (_, bytes) => skip(bytes),
      async file(_, bytes) {
        await skip(bytes)
        onProgress(++done, total)
      },
      secret: async () => {},
      problem: (path, problem) => problems.push({ path, problem, origin: 'backup' }),
    }
    const manifest = await readBackup(source, visitor, { ...policy, skipsDamaged: true })
    for (const { sha256, problem } of manifest.damaged) problems.push({ path: filePath(sha256), problem, origin: 'store' })
    return { manifest, fix: null, problems }
  } catch (error) {
    if (!(error instanceof BackupDamaged)) throw error
    const { fix = null } = error as { fix?: string }
    return { manifest: null, fix, problems: [...problems, { path: source.name, problem: error.message, origin: 'backup' }] }
  }
}
