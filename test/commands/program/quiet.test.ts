import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cliTransports, startCli } from '../../support/cli-transports.ts'
import { hasProgram, runOnTerminal } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'

const nothing = { code: 0, stdout: '', stderr: '' }

test.each(cliTransports)('-q %s: batches and actions print nothing on success, and rows with -o', async (transport) => {
  const { dms, envOf, admin, folder } = await startCli(transport)
  const operator = await envOf(admin)
  const file = join(folder, 'note.txt')
  await writeFile(file, 'a note about harbours')
  await writeFile(join(folder, 'staff.csv'), 'username,email\neve,eve@example.org\n')
  for (const args of [
    ['labels', 'create', 'inbox'],
    ['documents', 'upload', file, '--label', 'inbox'],
    ['documents', 'export', '--to', join(folder, 'out')],
    ['users', 'import', join(folder, 'staff.csv')],
    ['sources', 'sync', '--due'],
    ['labels', 'update', 'inbox', '--description', 'new'],
  ]) {
    expect(await dms([...args, '-q'], { env: operator, timeout: 60_000 }), args.join(' ')).toMatchObject(nothing)
  }
  expect((await dms(['documents', 'upload', file, '-q', '-o', 'tsv'])).stdout).toMatch(/^\w+\t.*note\.txt\t/)
  expect((await dms(['labels', 'list', '-q'])).stdout).toContain('inbox')
  expect((await dms(['documents', 'list', '-q'], { env: { DMS_OUTPUT: 'id' } })).stdout).toMatch(/^[0-9a-f-]{36}\n/)
})

test.each(cliTransports)('-q %s: failed items are on standard error only', async (transport) => {
  const { dms, folder } = await startCli(transport)
  const file = join(folder, 'note.txt')
  await writeFile(file, 'a note about harbours')
  const missing = join(folder, 'missing.txt')
  const failed = { code: 3, stdout: '', stderr: `${missing}: no such file or directory\n` }
  expect(await dms(['documents', 'upload', file, missing, '-q'])).toMatchObject(failed)
  expect(await dms(['documents', 'delete', '0192f0c1-0000-7000-8000-000000000000', '--yes', '-q'])).toMatchObject({
    code: 6,
    stdout: '',
    stderr: expect.stringMatching(/^0192f0c1-0000-7000-8000-000000000000: .+\n$/),
  })
})

test('config check -q prints nothing, or the problems on standard error', async () => {
  expect(await runHere(['config', 'check', '-q'])).toMatchObject(nothing)
  const bad = await runHere(['config', 'check', '-q'], { env: { DMS_SERVER_PORT: 'many' } })
  expect(bad).toMatchObject({ code: 78, stdout: '', stderr: expect.stringMatching(/^error: .*DMS_SERVER_PORT/) })
})

test('serve --check -q prints nothing if the server could start', async () => {
  const { dms } = await startCli('local')
  expect(await dms(['serve', '--check', '--port', '0', '-q'])).toMatchObject(nothing)
})

test.skipIf(!hasProgram('script'))('-q prints nothing on a terminal either', async () => {
  const { env, folder } = await startCli('local')
  const file = join(folder, 'note.txt')
  await writeFile(file, 'a note about harbours')
  expect(await runOnTerminal(['documents', 'upload', file, '-q'], { env })).toMatchObject({ code: 0, stdout: '' })
  expect(await runOnTerminal(['labels', 'create', 'inbox', '-q'], { env })).toMatchObject({ code: 0, stdout: '' })
})
