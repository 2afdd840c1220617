import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { upload } from '../../support/app.ts'
import { cliTransports, startCli } from '../../support/cli-transports.ts'

for (const transport of cliTransports)
  test(`${transport}: replace, versions, download --version and restore; 6 for what does not exist`, async () => {
    const { dms, folder, asAda } = await startCli(transport)
    const { id } = await upload(asAda, 'a.txt', 'one', { title: 'Contract' })
    const path = join(folder, 'b.txt')
    await writeFile(path, 'two')
    expect((await dms(['documents', 'replace', id, path])).stdout).toMatch(/^version\t2\naction\tcreated$/m)
    expect(JSON.parse((await dms(['documents', 'replace', id, path, '-o', 'json'])).stdout)).toMatchObject({
      ...{ id, version: 2, action: 'unchanged' },
    })
    const listed = await dms(['documents', 'versions', id, '-o', 'csv', '--fields', 'number,current,origin,filename'])
    expect(listed.stdout).toBe('NUMBER,CURRENT,ORIGIN,FILENAME\n2,current,upload,b.txt\n1,,upload,a.txt\n')
    expect((await dms(['documents', 'download', id, '--version', '1', '--to', join(folder, 'old.txt')])).code).toBe(0)
    expect(await readFile(join(folder, 'old.txt'), 'utf8')).toBe('one')
    expect((await dms(['documents', 'restore', id, '--version', '1'])).stdout).toMatch(/^version\t3\naction\tcreated$/m)
    expect((await asAda.documents.get(id)).version).toBe(3)
    for (const args of [
      ['documents', 'restore', id, '--version', '9'],
      ['documents', 'versions', id.replace(/.$/, (digit) => (digit === '0' ? '1' : '0'))],
      ['documents', 'replace', 'x', path],
    ])
      expect([args, (await dms(args)).code]).toEqual([args, 6])
    for (const args of [
      ['documents', 'replace', id, join(folder, 'missing.txt')],
      ['documents', 'replace', id, folder],
      ['documents', 'replace', id, '-'],
      ['documents', 'restore', id, '--version', '0'],
      ['documents', 'download', id, id.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')), '--version', '1'],
    ])
      expect([args, (await dms(args)).code]).toEqual([args, 2])
  })
