import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { upload } from '../../support/app.ts'
import { cliTransports, startCli } from '../../support/cli-transports.ts'

for (const transport of cliTransports)
  test(`${transport}: upload, update, list, get, export and search by the document date; 2 for what is no date`, async () => {
    const { dms, folder } = await startCli(transport)
    const file = join(folder, 'a.txt')
    await writeFile(file, 'harbour fees')
    const uploaded = await dms(['documents', 'upload', file, '--no-ocr', '--date', '2024-02-29', '-o', 'id'])
    expect(uploaded.code).toBe(0)
    const id = uploaded.stdout.trim()
    const list = async (...args: string[]) =>
      (await dms(['documents', 'list', '-o', 'csv', '--fields', 'title,document_date,date_source', ...args])).stdout
    expect(await list('--date', '2024-02')).toBe('TITLE,DATE,DATE_SOURCE\na,2024-02-29,user\n')
    expect((await dms(['documents', 'list'])).stdout).toMatch(/2024-02-29\n$/)
    expect((await dms(['documents', 'get', id])).stdout).toMatch(/date.*2024-02-29/i)
    expect((await dms(['documents', 'update', id, '--date', '2023-12-31'])).code).toBe(0)
    expect(await list('--date', '..2023', '--sort', 'document_date')).toMatch(/a,2023-12-31,user/)
    expect((await dms(['documents', 'update', id, '--date', '24.12.2023'])).code).toBe(0)
    expect(await list('--date', '24.12.2023..12/2023', '--until', '31.12.2099')).toMatch(/a,2023-12-24,user/)
    expect(await list('--date', '2024..')).toBe('TITLE,DATE,DATE_SOURCE\n')
    const manifest = await dms(['documents', 'export', '--date', '2023', '--to', join(folder, 'out'), '-o', 'json'])
    expect(manifest.code).toBe(0)
    expect((await dms(['documents', 'update', id, '--date', 'none'])).code).toBe(0)
    expect(JSON.parse((await dms(['documents', 'get', id, '-o', 'json'])).stdout)).toMatchObject({
      document_date: null,
      date_source: 'user',
    })
    for (const args of [
      ['documents', 'update', id, '--date', '2023'],
      ['documents', 'upload', file, '--date', 'someday'],
      ['documents', 'list', '--date', '2024-13'],
      ['search', 'query', 'harbour', '--date', '1..2'],
    ])
      expect([args, (await dms(args)).code]).toEqual([args, 2])
  })

test('--date takes yesterday, today and durations; 2 for other words and numbers', async () => {
  const { dms, asAda } = await startCli('local')
  const { id } = await upload(asAda, 'a.txt', 'harbour fees')
  expect((await dms(['documents', 'update', id, '--date', 'yesterday'])).code).toBe(0)
  const periods = ['Yesterday', '2d..today', '7d', '..7d', 'someday..', '12']
  const listed = await Promise.all(periods.map((period) => dms(['documents', 'list', '-o', 'id', '--date', period])))
  expect(Object.fromEntries(periods.map((period, at) => [period, [listed[at]?.code, listed[at]?.stdout.trim()]]))).toEqual({
    Yesterday: [0, id],
    '2d..today': [0, id],
    '7d': [0, id],
    '..7d': [0, ''],
    'someday..': [2, ''],
    '12': [2, ''],
  })
})
