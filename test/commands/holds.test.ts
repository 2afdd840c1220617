import { expect, test } from 'vitest'
import { upload } from '../support/app.ts'
import { cliTransports, startCli } from '../support/cli-transports.ts'

test.each(cliTransports)('%s: holds by name (any case) or id, with ids from a pipe; released after confirmation', async (transport) => {
  const { dms, envOf, admin, asAda } = await startCli(transport)
  const env = await envOf(admin)
  const as = (args: string[], input?: string) => dms(args, input === undefined ? { env } : { env, input })
  const [one, two] = [await upload(asAda, '1.txt', '1'), await upload(asAda, '2.txt', '2')]
  const { id } = JSON.parse((await as(['holds', 'create', 'Case 4711', '--reason', 'a claim', '--json'])).stdout)
  expect((await as(['holds', 'create', 'case 4711'])).code).toBe(7)
  expect(await as(['holds', 'add', 'CASE 4711', '-'], `${one.id}\n${two.id}\n`)).toMatchObject({
    code: 0,
    stdout: 'hold\tCase 4711\ndocuments\t2\nchanged\t2\n',
  })
  expect((await as(['holds', 'remove', id, two.id, '--fields', 'changed'])).stdout).toBe('changed\t1\n')
  expect((await as(['holds', 'list', '--fields', 'name,document_count,reason'])).stdout).toBe('Case 4711\t1\ta claim\n')
  expect((await as(['complete', 'hold'])).stdout).toBe('Case 4711\n')
  expect((await as(['retention', 'report', '--by', 'hold'])).stdout).toBe('Case 4711\t1\t1\n')
  expect((await as(['holds', 'delete', id, '-y'])).code).toBe(7)
  for (const flag of ['-n', '-y'])
    expect(await dms(['documents', 'delete', one.id, '--permanent', flag])).toMatchObject({
      code: 7,
      stderr: expect.stringContaining('Case 4711'),
    })
  expect((await dms(['documents', 'delete', one.id, '-n'])).code).toBe(0)
  expect((await dms(['documents', 'delete', two.id, '--permanent', '-n'])).code).toBe(0)
  expect(await as(['holds', 'release', 'case 4711'])).toMatchObject({ code: 2, stderr: expect.stringContaining('pass --yes') })
  expect((await as(['holds', 'release', 'case 4711', '-y'])).code).toBe(0)
  expect((await as(['holds', 'add', id, one.id])).code).toBe(7)
  expect(await as(['holds', 'add', 'case 4711', one.id])).toMatchObject({ code: 6, stderr: expect.stringContaining('dms holds list') })
  expect((await as(['holds', 'list', '--all', '--fields', 'name'])).stdout).toBe('Case 4711\n')
  expect((await as(['holds', 'delete', id, '-y'])).code).toBe(0)
  expect((await dms(['holds', 'list'])).code).toBe(5)
})

test.each(cliTransports)('%s: retention is set until a date or for a time, and reported; 7 for an earlier date', async (transport) => {
  const { dms, asAda } = await startCli(transport)
  const [one, two] = [await upload(asAda, '1.txt', '1'), await upload(asAda, '2.txt', '22')]
  expect((await dms(['retention', 'set', '-', '--until', '2090-12-31'], { input: `${one.id}\n${two.id}\n` })).code).toBe(0)
  expect((await dms(['retention', 'set', one.id, '--until', '2091-01-01'])).code).toBe(0)
  expect(await dms(['retention', 'set', one.id, '--until', '3650d'])).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('can only be lengthened'),
  })
  expect((await dms(['retention', 'report', '--fields', 'id,retain_until'])).stdout).toBe(
    `${two.id}\t2090-12-31T23:59:59.999Z\n${one.id}\t2091-01-01T23:59:59.999Z\n`,
  )
  expect((await dms(['retention', 'report', '--by', 'month', '-o', 'csv'])).stdout).toBe(
    'MONTH,DOCUMENTS,BYTES\n2090-12,1,2\n2091-01,1,1\n',
  )
  expect((await dms(['documents', 'get', one.id, '--fields', 'retain_until'])).stdout).toBe('retain_until\t2091-01-01T23:59:59.999Z\n')
})

test('labels retain documents: --retention-days of create and update; none, and 2 for what is no number of days', async () => {
  const { dms, asAda } = await startCli('HTTP')
  expect(
    (await dms(['labels', 'create', 'contracts', '--retention-days', '30', '--fields', 'retention_days,retention_scope'])).stdout,
  ).toBe('retention_days\t30\nretention_scope\tcreator\n')
  const { retain_until } = await upload(asAda, '1.txt', '1', { labels: 'contracts' })
  expect(retain_until).not.toBeNull()
  expect((await dms(['labels', 'update', 'contracts', '--retention-days', 'none', '--fields', 'retention_days'])).stdout).toMatch(
    /^retention_days\t-?\n$/,
  )
  expect((await dms(['labels', 'update', 'contracts', '--retention-days', '0'])).code).toBe(2)
})
