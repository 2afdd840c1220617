import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { upload } from '../support/app.ts'
import { cliTransports, startCli } from '../support/cli-transports.ts'

test('labels by name (any case) or id: create, assign and unassign ids from a pipe, delete after confirmation', async () => {
  const { dms, asAda } = await startCli('HTTP')
  const [one, two] = [await upload(asAda, '1.txt', '1'), await upload(asAda, '2.txt', '2')]
  const made = await dms(['labels', 'create', 'Invoices', '--colour', '#aabbcc', '--json'])
  const { id } = JSON.parse(made.stdout)
  expect((await dms(['labels', 'create', 'invoices'])).code).toBe(7)
  expect(JSON.parse((await dms(['labels', 'create', 'invoices', '--if-absent', '--json'])).stdout)).toMatchObject({
    id,
    name: 'Invoices',
    color: '#aabbcc',
  })
  const assigned = await dms(['labels', 'assign', 'INVOICES', '-'], { input: `${one.id}\n${two.id}\n` })
  expect(assigned).toMatchObject({ code: 0, stdout: 'label\tInvoices\ndocuments\t2\nchanged\t2\n' })
  expect((await dms(['labels', 'unassign', id, one.id, '--fields', 'changed'])).stdout).toBe('changed\t1\n')
  expect((await dms(['labels', 'list', '--fields', 'name,document_count'])).stdout).toBe('Invoices\t1\n')
  const nothing = 'no ids on standard input: nothing was changed\n'
  expect(await dms(['labels', 'assign', id, '-'], { input: '' })).toMatchObject({ code: 0, stderr: nothing })
  const many = Array.from({ length: 10_001 }, () => randomUUID()).join('\n')
  expect((await dms(['labels', 'assign', id, '-'], { input: many })).code, 'no such document, not too many ids').toBe(6)
  expect((await dms(['labels', 'update', 'invoices'])).code).toBe(2)
  expect((await dms(['labels', 'update', 'nothing', '--name', 'x'])).code).toBe(6)
  expect(await dms(['labels', 'delete', 'invoices'])).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('pass --yes') })
  expect((await dms(['labels', 'rm', 'invoices', '-y'])).code).toBe(0)
  expect((await asAda.documents.get(two.id)).labels).toEqual([])
})

test.each(cliTransports)('%s: 6 for a missing label, with the commands that create it and list the others', async (transport) => {
  const { dms, asAda, folder } = await startCli(transport)
  const { id } = await upload(asAda, '1.txt', '1')
  const file = join(folder, '2.txt')
  await writeFile(file, '2')
  for (const args of [
    ['documents', 'upload', file, '--label', 'missing'],
    ['documents', 'upload', '-n', file, '--label', 'missing'],
    ['documents', 'update', id, '--add-label', 'missing'],
    ['documents', 'list', '--label', 'missing'],
    ['documents', 'export', '--label', 'missing', '--to', join(folder, 'out')],
    ['search', 'query', 'x', '--label', 'missing'],
    ['labels', 'assign', 'missing', id],
    ['labels', 'unassign', 'missing', id],
    ['documents', 'update', id, '--remove-label', 'missing'],
  ]) {
    const isAdded = args.includes('--add-label') || ['upload', 'assign'].includes(args[1] ?? '')
    expect(await dms(args), args.join(' ')).toMatchObject({
      code: 6,
      stdout: '',
      stderr: `error: no label "missing"\n         fix: dms labels create missing, or one of: dms labels list\n`,
    })
    if (!isAdded) continue
    const names = args.map((word) => (word === 'missing' ? `new ${args[1]}` : word))
    expect(await dms([...names, '--create-labels', '-q'])).toMatchObject({ code: 0, stdout: '', stderr: '' })
  }
  const names = (await asAda.labels.list()).map(({ name, document_count }) => [name, document_count])
  expect(names).toEqual([
    ['new assign', 1],
    ['new update', 1],
    ['new upload', 1],
  ])
})
