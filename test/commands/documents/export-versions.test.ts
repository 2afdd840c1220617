/** Exports with --all-versions. */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { readTar } from '../../../src/backup/tar.ts'
import { exportFileName } from '../../../src/cli/export/manifest.ts'
import { upload } from '../../support/app.ts'
import { startCli } from '../../support/cli-transports.ts'
import { replace } from '../../support/data/versions.ts'

const parseLines = (text: string): Record<string, unknown>[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

test('names of old versions have their number and fit a ustar header', () => {
  const id = '01900000-0000-7000-8000-0123456789ab'
  expect(exportFileName({ id, filename: 'plan.pdf' }, 12)).toBe('plan-0123456789ab.v12.pdf')
  expect(Buffer.byteLength(exportFileName({ id, filename: `${'é'.repeat(100)}.pdf` }, 123_456_789))).toBeLessThanOrEqual(96)
})

test.each(['plan.v1', 'plan.V1'])('the current version %s and an old version have different names', (filename) => {
  const id = '01900000-0000-7000-8000-0123456789ab'
  const old = exportFileName({ id, filename: 'plan' }, 1)
  expect(old).toBe('plan-0123456789ab.v1')
  expect(exportFileName({ id, filename }).toLowerCase()).toBe('plan.v1-0123456789ab')
})

test.each(['HTTP', 'local'] as const)(
  '%s: a folder with all versions is resumed, and --delete-extra without them deletes them',
  async (transport) => {
    const { dms, folder, asAda, runJobs } = await startCli(transport)
    const { id } = await upload(asAda, 'plan.txt', 'first plan')
    await upload(asAda, 'note.txt', 'a note')
    await runJobs()
    await replace(asAda, id, 'new plan.md', 'second plan, longer')
    await runJobs()
    await asAda.documents.restore(id, 1)
    await runJobs()
    const to = join(folder, 'out')
    const run = async (...more: string[]) => {
      const { code, stdout } = await dms(['documents', 'export', '--to', to, '--json', ...more])
      return { code, ...JSON.parse(stdout) }
    }
    expect(await run('--all-versions', '--with-text')).toMatchObject({ code: 0, created: 4, bytes: 10 + 10 + 19 + 6 })
    const end = id.slice(-12)
    const lines = parseLines(await readFile(join(to, 'manifest.jsonl'), 'utf8')).filter((line) => line.id === id)
    expect(lines.map(({ version, current, file, text_file, origin }) => [version, current, file, text_file, origin])).toEqual([
      [1, false, `plan-${end}.v1.txt`, `plan-${end}.v1.txt.txt`, 'upload'],
      [2, false, `new plan-${end}.v2.md`, `new plan-${end}.v2.md.txt`, 'upload'],
      [3, true, `plan-${end}.txt`, `plan-${end}.txt.txt`, undefined],
    ])
    const texts = await Promise.all(lines.map(({ file }) => readFile(join(to, String(file)), 'utf8')))
    expect(texts).toEqual(['first plan', 'second plan, longer', 'first plan'])
    expect(await readFile(join(to, `new plan-${end}.v2.md.txt`), 'utf8')).toContain('second plan')

    await rm(join(to, `new plan-${end}.v2.md`))
    await writeFile(join(to, `plan-${end}.v1.txt`), 'someone wrote here')
    expect(await run('--all-versions', '--delete-extra')).toMatchObject({ code: 0, updated: 2, unchanged: 2 })
    expect(await readFile(join(to, `plan-${end}.v1.txt`), 'utf8')).toBe('first plan')
    expect(await run('--all-versions')).toMatchObject({ code: 0, unchanged: 4 })
    expect(await run('--delete-extra')).toMatchObject({ code: 0, unchanged: 2, deleted: 2 })
    expect((await readdir(to)).filter((name) => /\.v\d/.test(name) && !name.endsWith('.txt.txt') && !name.endsWith('.md.txt'))).toEqual([])
  },
)

test('a tar with all versions; without the option old versions are left out', async () => {
  const { dms, folder, asAda } = await startCli('HTTP')
  const { id } = await upload(asAda, 'plan.txt', 'first plan')
  await replace(asAda, id, 'plan.txt', 'second plan')
  const entries = async (name: string, ...more: string[]) => {
    const to = join(folder, name)
    expect(await dms(['documents', 'export', '--to', to, ...more])).toMatchObject({ code: 0 })
    const found: [string, string][] = []
    for await (const { path, bytes } of readTar([await readFile(to)])) found.push([path, (await buffer(bytes)).toString()])
    return new Map(found)
  }
  const end = id.slice(-12)
  const all = await entries('all.tar', '--all-versions')
  expect([...all].slice(0, 2)).toEqual([
    [`plan-${end}.txt`, 'second plan'],
    [`plan-${end}.v1.txt`, 'first plan'],
  ])
  expect(parseLines(all.get('manifest.jsonl') ?? '').map(({ version, current }) => [version, current])).toEqual([
    [2, true],
    [1, false],
  ])
  expect([...(await entries('current.tar')).keys()]).toEqual([`plan-${end}.txt`, 'manifest.jsonl'])
})
