/** F24: the clock of server and worker jumps; the clock of PostgreSQL does not. */
import { existsSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from './fault.ts'

const library = ['x86_64-linux-gnu', 'aarch64-linux-gnu']
  .map((machine) => `/usr/lib/${machine}/faketime/libfaketimeMT.so.1`)
  .find(existsSync)
const jumps = ['+25h', '-2d', '+10m', '+3650d', '+0'] as const

export const jumpingClock: Fault = {
  id: 'F24',
  name: 'clock jumps: +25 h, -2 d, +10 min, +10 y, back',
  skipReason: () => (library ? null : 'there is no libfaketime'),
  run,
}

async function run({ installation }: FaultContext): Promise<FaultResult> {
  const file = join(installation.folder, 'clock')
  const setClock = async (offset: string) => {
    await writeFile(`${file}.new`, `${offset}\n`)
    await rename(`${file}.new`, file)
  }
  await setClock('+0')
  const server = await installation.start({
    env: {
      LD_PRELOAD: library ?? '',
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DMS_WORKER_LEASE: '5s',
    },
  })
  const faultRun = await openFaultRun(installation)
  const { caller, expect } = faultRun
  for (const jump of jumps) {
    await caller.uploadText()
    await setClock(jump)
    const { status } = await caller.list()
    expect([200, 401].includes(status), `${jump}: a list is answered with ${status}`)
    await caller.signIn()
    expect((await caller.list()).status === 200, `${jump}: a new token is refused`)
    const { id, status: uploadStatus, body } = await caller.uploadText()
    expect(id !== null, `${jump}: an upload with a new token is answered with ${uploadStatus} ${body}`)
    if (id === null) continue
    const isRead = async () =>
      (await installation.query<{ status: string }>(`select status from documents where id = '${id}'`))[0]?.status === 'completed'
    const end = performance.now() + 90_000
    while (!(await isRead()) && performance.now() < end) await sleep(100)
    expect(await isRead(), `${jump}: a document is not read within 90 s`)
    expect(server.isRunning(), `${jump}: the server ended`)
  }
  const result = await faultRun.finish(`${jumps.length} jumps`)
  await server.kill()
  return result
}
