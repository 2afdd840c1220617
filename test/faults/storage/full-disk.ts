/** F17: the disk of the store runs out of bytes or inodes, or becomes read-only, and recovers. */
import { execFileSync } from 'node:child_process'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultContext, type FaultResult, needs, needsMounting, needsRoot, openFaultRun } from '../fault.ts'

export const fullDisk: Fault = {
  id: 'F17',
  name: 'disk full, of bytes and of names; read-only',
  skipReason: needs(needsRoot, needsMounting),
  run,
}

async function run({ openInstallation }: FaultContext): Promise<FaultResult> {
  const installation = await openInstallation()
  const files = join(installation.dataDir, 'files')
  const mount = (options: string) => execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'dms-faults', files])
  const remount = (options: string) => execFileSync('mount', ['-o', `remount,${options}`, files])
  await mkdir(files, { recursive: true })
  // The database's account must get through.
  execFileSync('chmod', ['0711', installation.dataDir])
  mount('size=16m,mode=0700')
  installation.atEnd(() => execFileSync('umount', ['-l', files]))
  try {
    const server = await installation.start()
    const faultRun = await openFaultRun(installation)
    const { caller, expect } = faultRun
    const remaining = () => readdir(join(files, '.tmp'))
    /** Uses all inodes; a worker may free one meanwhile, and then the limit is too low to be set. */
    const limitNames = async () => {
      for (let round = 0; ; round++) {
        const used = Number(execFileSync('df', ['--output=iused', files]).toString().split('\n')[1])
        try {
          return remount(`size=64m,nr_inodes=${used}`)
        } catch (error) {
          if (round === 50) throw error
          await sleep(100)
        }
      }
    }
    const isIdle = async () => {
      const working = async () => {
        const jobs = await installation.query(`select from jobs where status in ('pending', 'processing')`)
        return jobs.length + (await remaining()).length > 0
      }
      for (const end = performance.now() + 60_000; (await working()) && performance.now() < end; ) await sleep(100)
    }
    const goesOn = async (when: string) => {
      for (const [what, call] of Object.entries({ list: caller.list, search: caller.search }))
        expect((await call()).status === 200, `${when}: ${what} is refused`)
      const [id = ''] = faultRun.ledger.uploads.keys()
      expect((await caller.download(id)).status === 200, `${when}: a download is refused`)
    }
    const isRefused = async (when: string, size: number) => {
      const { status, body } = await (size > 0 ? caller.uploadBytes(size) : caller.uploadText())
      expect([503, 507].includes(status) && body.includes('"code"'), `${when}: an upload is answered with ${status} ${body}`)
      // A worker may be at the documents before this one.
      for (const end = performance.now() + 60_000; (await remaining()).length > 0 && performance.now() < end; ) await sleep(100)
      // What a worker has read cannot be removed from a disk that takes no writes; it goes with the next file that is read.
      const names = (await remaining()).filter((name) => when !== 'read-only' || !name.endsWith('.link'))
      expect(names.length === 0, `${when}: files are left on their way: ${names.join(' ')}`)
    }
    const isTaken = async (when: string, size = 0) => {
      const { status, body } = await (size > 0 ? caller.uploadBytes(size) : caller.uploadText())
      expect(status === 201, `${when}: an upload is answered with ${status} ${body}`)
    }

    await isTaken('empty', 6_000_000)
    await isTaken('half full', 6_000_000)
    await isRefused('no room for 6 MB', 6_000_000)
    await isTaken('room for a small one')
    await goesOn('no room for 6 MB')

    await writeFile(join(files, 'filler'), Buffer.alloc(32 << 20)).catch(() => {})
    await isRefused('no byte free', 0)
    await goesOn('no byte free')
    await rm(join(files, 'filler'))
    await isTaken('room again')
    remount('size=64m')
    await isTaken('a larger disk', 6_000_000)

    // A worker that reads the large documents would free names.
    await isIdle()
    await limitNames()
    await isRefused('no name free', 0)
    await goesOn('no name free')
    remount('size=64m,nr_inodes=100000')
    await isTaken('names again')

    remount('ro')
    await isRefused('read-only', 0)
    await goesOn('read-only')
    remount('rw')
    await isTaken('writable again')

    expect(server.isRunning(), 'the server ended')
    const [failed] = await installation.query<{ count: number }>(`select count(*)::int as count from documents where status = 'failed'`)
    expect(failed?.count === 0, `${failed?.count} documents failed because of the disk`)
    const result = await faultRun.finish('4 ways to refuse a write')
    await server.kill()
    return result
  } finally {
    await installation.remove()
  }
}
