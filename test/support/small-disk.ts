/** A file system that is soon full. */
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Mounts a tmpfs and returns its folder. `options`: such as `size=4m`. Skips the test without the right to mount. */
export async function mountSmallDisk(skip: (note: string) => never, options: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-full-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], { stdio: 'ignore' })
  } catch {
    return skip('needs the right to mount a tmpfs')
  }
  onTestFinished(() => void execFileSync('umount', ['-l', folder]))
  return folder
}
