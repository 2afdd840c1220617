/** Creates folders atomically. */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { flushFolder } from '../../folders.ts'
import { isAlive } from '../../processes.ts'

/**
 * Creates a folder atomically: `fill` writes into a temporary folder (mode 0700), which is then renamed. If several processes do so, one wins and
 * the others discard theirs. A failure leaves nothing behind; the next call removes the leftovers of a killed process.
 */
export async function createFolder(folder: string, fill: (temporary: string) => Promise<void>): Promise<void> {
  await removeLeftovers(folder)
  const temporary = `${folder}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`
  try {
    await mkdir(temporary, { mode: 0o700 })
    await fill(temporary)
    await renameInto(temporary, folder)
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

async function renameInto(temporary: string, folder: string): Promise<void> {
  try {
    await rename(temporary, folder)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return
    throw error
  }
  await flushFolder(dirname(folder))
}

async function removeLeftovers(folder: string): Promise<void> {
  const name = basename(folder)
  for (const entry of await readdir(dirname(folder))) {
    const pid = entry.startsWith(`${name}.`) && /^\.(\d+)\.[0-9a-f]{8}\.tmp$/.exec(entry.slice(name.length))?.[1]
    if (pid && !isAlive(Number(pid))) await rm(join(dirname(folder), entry), { recursive: true, force: true })
  }
}
