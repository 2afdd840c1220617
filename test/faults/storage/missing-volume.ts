/** F19: the volume of the files is not mounted: its mount point is an empty folder. */
import { mkdir, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run as runDms } from '../../support/processes/run.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { password } from '../installation.ts'

export const missingVolume: Fault = { id: 'F19', name: 'volume of the files not mounted, another one mounted', run }

async function run({ installation }: FaultContext): Promise<FaultResult> {
  let server = await installation.start()
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  const ids: string[] = []
  for (let at = 0; at < 5; at++) ids.push((await caller.uploadText()).id ?? '')
  const files = join(installation.dataDir, 'files')
  const away = `${files}.away`
  const unmount = async () => {
    await rename(files, away)
    await mkdir(files)
  }
  /** Mounts it as an administrator would: files written to the mount point meanwhile are hidden by the volume. */
  const mount = async () => {
    const written = await readdir(files)
    expect(written.filter((name) => !name.startsWith('.')).length === 0, `files were written to the empty mount point: ${written[0]}`)
    for (const name of written) await rm(join(files, name), { recursive: true })
    await rmdir(files)
    await rename(away, files)
  }
  const documents = async () => (await installation.query<{ count: number }>('select count(*)::int as count from documents'))[0]?.count
  const purged = (await caller.uploadText()).id ?? ''
  const removals = async () =>
    (await installation.query<{ count: number }>('select count(*)::int as count from file_removals'))[0]?.count ?? 0
  const before = (await documents()) ?? 0

  // A worker that finds the folder empty at its start would end, and start again after a minute.
  // The table of workers does not tell: faults share an installation, and a worker that an earlier one has killed may still have its row.
  await expectSoon('no worker starts', async () => server.output.some((line) => line.includes('"msg":"working"')))

  // While the server runs.
  await unmount()
  const upload = await caller.uploadText()
  expect(upload.status === 503, `not mounted: an upload was answered with ${upload.status}`)
  const download = await caller.download(ids[0] ?? '')
  expect(download.status !== 200 && download.status < 600, `not mounted: a download was answered with ${download.status}`)
  expect((await caller.list()).status === 200, 'not mounted: the list is refused')
  const ready = await caller.call('GET', '/readyz', { what: 'readyz' })
  expect(ready.status === 503, `not mounted: /readyz says ${ready.status}`)
  const check = await dms(['check', '--checks', 'files'])
  expect(check.code !== 0, 'not mounted: dms check finds nothing')
  const cleaned = await dms(['maintenance', 'run'])
  notes.push(`download ${download.status}, dms check ${check.code}, maintenance run ${cleaned.code}`)
  expect((await documents()) === before, 'not mounted: documents are gone')
  // Its job runs while the file is out of reach, and must remove it later: the audit looks for the file.
  await caller.purge(purged)
  await expectSoon('not mounted: no removal waits after a purge', async () => (await removals()) > 0)
  await mount()
  expect((await caller.uploadText()).status === 201, 'mounted again: an upload is refused')

  // When it starts.
  await server.stop()
  await unmount()
  await refusesToStart('an empty folder')
  await writeFile(join(files, '.dms-store'), 'the marker of another installation\n')
  await refusesToStart('the folder of another installation')
  await mount()
  server = await installation.start()
  expect((await documents()) === before, 'mounted again: documents are gone')
  faultRun.ledger.problems.clear()
  const result = await faultRun.finish('2 times not mounted, 1 other volume')
  await server.kill()
  return result

  async function expectSoon(otherwise: string, isTrue: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + 60_000
    while (!(await isTrue()) && performance.now() < end) await sleep(100)
    expect(await isTrue(), otherwise)
  }

  function dms(args: readonly string[]) {
    return runDms([...args, '--data-dir', installation.dataDir], {
      env: { DMS_STORAGE_MIN_FREE: '0', DMS_ADMIN_PASSWORD: password },
      timeout: 180_000,
    })
  }

  async function refusesToStart(what: string): Promise<void> {
    for (const args of [
      ['serve', '--port', '0'],
      ['worker', '--once'],
    ]) {
      const { code, stderr, signal } = await dms(args)
      expect(code !== 0 && signal === null, `${what}: dms ${args[0]} ended with ${code ?? signal}`)
      expect(stderr.includes(files), `${what}: dms ${args[0]} does not name the folder: ${stderr.slice(-200)}`)
    }
  }
}
