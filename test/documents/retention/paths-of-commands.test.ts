/** Every command against documents under retention and under hold: the invocations of every-row.ts, and those that destroy. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { rows } from '../../support/data/every-row.ts'
import { makeWorlds, type World } from '../../support/every-world.ts'
import { bareEnvironment } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { protections, trackProtectedDocuments } from '../../support/protected-documents.ts'
import { startServer } from '../../support/servers/server.ts'

vi.setConfig({ testTimeout: 600_000 })

/** Invocations that destroy what is not retained. */
const destroying: Readonly<Record<string, (world: World) => readonly (readonly string[])[]>> = {
  'documents delete': ({ documents }) => documents.map(({ id }) => ['--permanent', '-y', id]),
  'trash empty': () => [['-y']],
  'users delete': ({ name }) => [[name, '--documents', 'delete', '--confirm', name]],
  'maintenance run': () => [[]],
  'maintenance purge-trash': () => [[]],
  check: () => [['--repair']],
  api: ({ documents }) => documents.map(({ id }) => ['DELETE', `/api/documents/${id}?permanent=true`]),
}

/** Verbs that may destroy something. A command of this name needs a row in every-row.ts that is run here, or a line above. */
const mayDestroy = /\b(delete|remove|purge|empty|prune|repair|rollback|restore|replace|expire|vacuum|maintenance)/

/** Commands that need more than documents; their tests against retention are elsewhere. */
const elsewhere: Readonly<Record<string, string>> = {
  restore: 'refuses a database that has documents',
  'holds delete': 'test/commands/holds.test.ts',
}

test('no command destroys a document under retention or hold', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-protected-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const server = await startServer({ 'sources.local_roots': folder })
  const { one: world } = await makeWorlds(server, folder, ['one'])
  const protectedDocuments = trackProtectedDocuments(server.app)
  for (const [index, { id }] of world.documents.entries()) await protectedDocuments.protect(id, protections[index % 2]!)
  const problems: string[] = []
  const refused = new Set<string>()
  const run = async (name: string, args: readonly string[], who: 'person' | 'admin', input = '') => {
    const env = bareEnvironment(await world.env(name === 'api' ? 'there' : 'here', who))
    const { stdout, stderr } = await runHere([...name.split(' '), ...args, '--json'], { env, input, timeout: 60_000 })
    if (/INTERNAL_ERROR/.test(stdout + stderr)) problems.push(`${name} ${args.join(' ')}: ${stderr}`)
    if (/RETENTION/.test(stdout + stderr)) refused.add(name)
    for (const id of await protectedDocuments.listDestroyed()) problems.push(`${name} ${args.join(' ')} destroyed ${id}`)
  }
  for (const [name, row] of Object.entries(rows)) {
    if ('elsewhere' in row || row.only === 'there') continue
    await run(name, row.args?.(world) ?? [], row.who ?? 'person', row.input?.(world))
  }
  for (const [name, invocations] of Object.entries(destroying)) for (const args of invocations(world)) await run(name, args, 'admin')
  expect(problems).toEqual([])
  expect(await protectedDocuments.listDamaged()).toEqual([])
  expect([...refused]).toEqual(expect.arrayContaining(['documents delete', 'users delete', 'api']))
  const unknown = Object.entries(rows).filter(
    ([name, row]) => mayDestroy.test(name) && 'elsewhere' in row && !(name in destroying) && !(name in elsewhere),
  )
  expect(unknown).toEqual([])
})
