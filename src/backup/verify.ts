/** Reads every byte of a backup and verifies its checksums. */

import type { Fix } from '../log/fix.ts'
import type { BackupSource } from './backup-source.ts'
import { drain } from './byte-streams.ts'
import { BackupDamaged, filePath, type Manifest } from './manifest.ts'
import { type BackupVisitor, readBackup } from './read-backup.ts'
import type { SignaturePolicy } from './signature.ts'

export interface VerifyResult {
  /** null for a truncated or unreadable backup */
  manifest: Manifest | null
  /** `store`: the stored file was damaged before the backup; `backup`: the backup was damaged later */
  fix: Fix | null
  problems: { path: string; problem: string; origin: 'backup' | 'store' }[]
}

/** Verifies a backup to its end. Returns damage in the result and does not throw it. */
export async function verifyBackup(
  source: BackupSource,
  policy: SignaturePolicy,
  onProgress: (done: number, total: number) => void,
): Promise<VerifyResult> {
  const problems: VerifyResult['problems'] = []
  let [done, total] = [0, 0]
  try {
    const visitor: BackupVisitor = {
      async head({ files }) {
        total = files
      },
      table: (_, bytes) => drain(bytes),
      async file(_, bytes) {
        await drain(bytes)
        onProgress(++done, total)
      },
      secret: async () => {},
      report: (path, problem) => problems.push({ path, problem, origin: 'backup' }),
    }
    const manifest = await readBackup(source, visitor, { ...policy, skipsDamaged: true })
    for (const { sha256, problem } of manifest.damaged) problems.push({ path: filePath(sha256), problem, origin: 'store' })
    return { manifest, fix: null, problems }
  } catch (error) {
    if (!(error instanceof BackupDamaged)) throw error
    return {
      manifest: null,
      fix: error.fix ?? null,
      problems: [...problems, { path: source.name, problem: error.message, origin: 'backup' }],
    }
  }
}
