/** F30: stored bytes are flipped, truncated, removed and exchanged directly on the disk. */
import { createHash } from 'node:crypto'
import { readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run as runDms } from '../../support/processes/run.ts'
import { sha256Of } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'

export const corruptFiles: Fault = { id: 'F30', name: 'stored bytes flipped, cut, removed, swapped', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const times = isShort ? 2 : 20
  const server = await installation.start()
  const faultRun = await openFaultRun(installation)
  const { caller, ledger, expect, notes } = faultRun
  const pathOf = async (sum: string) => {
    const [row] = await installation.query<{ address: string }>(`select address from stored_files where sha256 = '${sum}'`)
    return join(installation.dataDir, 'files', sum.slice(0, 2), sum.slice(2, 4), row?.address ?? '')
  }
  const good = new Map<string, Buffer>()
  const damaged = new Map<string, string>()
  const one = async (what: string, harm: (path: string, bytes: Buffer) => Promise<void>) => {
    const { id } = await caller.uploadBytes(50_000)
    const path = await pathOf(ledger.uploads.get(id ?? '')?.sha256 ?? '')
    const bytes = await readFile(path)
    good.set(path, bytes)
    await harm(path, bytes)
    damaged.set(id ?? '', what)
  }
  for (let time = 0; time < times; time++) {
    await one('flipped', (path, bytes) => {
      const at = Math.floor(Math.random() * bytes.length)
      return writeFile(
        path,
        bytes.map((byte, index) => (index === at ? byte ^ 1 : byte)),
      )
    })
    await one('cut', (path) => truncate(path, 49_999))
    await one('lengthened', (path, bytes) => writeFile(path, Buffer.concat([bytes, Buffer.from('x')])))
    await one('removed', (path) => rm(path))
    const swapped: string[] = []
    for (let side = 0; side < 2; side++) await one('swapped', async (path) => void swapped.push(path))
    const [a = '', b = ''] = swapped
    await rename(a, `${a}.aside`)
    await rename(b, a)
    await rename(`${a}.aside`, b)
  }

  const { code, stdout } = await runDms(
    ['check', '--data-dir', installation.dataDir, '--checks', 'files,checksums', '--sample', '100%', '-o', 'jsonl'],
    {
      env: { DMS_STORAGE_MIN_FREE: '0' },
      timeout: 120_000,
    },
  )
  const found = new Set([...stdout.matchAll(/"document_id":"([0-9a-f-]{36})"/g)].map(([, id]) => id))
  const missed = [...damaged].filter(([id]) => !found.has(id))
  expect(code === 3, `dms check ended with ${code}`)
  expect(missed.length === 0, `dms check misses ${missed.length}: ${missed.map(([, what]) => what).join(' ')}`)
  expect(found.size === damaged.size, `dms check tells of ${found.size - damaged.size} that are well`)
  notes.push(`dms check found ${damaged.size - missed.length} of ${damaged.size}`)

  for (const [id, what] of damaged) {
    const { status, body, headers } = await caller.download(id)
    const result = /sha-256=:([^:]+):/.exec(headers.get('repr-digest') ?? '')?.[1]
    const isTold = status === 200 && result !== createHash('sha256').update(body).digest('base64')
    expect(status !== 200 || isTold || sha256Of(body) === ledger.uploads.get(id)?.sha256, `${what}: wrong bytes, and nothing says so`)
    if (status === 200) notes.push(`${what}: sent, Repr-Digest differs`)
  }
  // A backup brings them back.
  for (const [path, bytes] of good) await writeFile(path, bytes)
  const result = await faultRun.finish(`${damaged.size} files`)
  await server.kill()
  return { ...result, notes: [...new Set(result.notes)] }
}
