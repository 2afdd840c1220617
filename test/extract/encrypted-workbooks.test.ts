/** Excel workbooks from before 2007 that are protected against changes. */
import { expect, test } from 'vitest'
import { cryptoApiWorkbook, rc4, rc4Workbook, xorWorkbook } from '../support/data/encrypted-workbooks.ts'
import { ole } from '../support/data/files.ts'
import { biff } from '../support/data/sheet-files.ts'
import { failureOf, readBytes } from '../support/read-bytes.ts'

/** The password that programs use for files that are only protected against changes. */
const byDefault = 'VelvetSweatshop'
const rows = Array.from({ length: 200 }, (_, row) => `harbour fees ${row}`)
const records = (infoLength: number): Buffer[] => {
  const begin = (type: number): Buffer => biff(0x809, { u16: 0x600 }, { u16: type })
  const globals = (at: number) => [begin(5), biff(0xe1, { u16: 1200 }), biff(0x85, { u32: at }, { u16: 0 }, 5, 0, 'Costs')]
  const at = Buffer.concat(globals(0)).length + infoLength
  const cells = rows.map((text, row) => biff(0x204, { u16: row }, { u16: 0 }, { u16: 0 }, { u16: text.length }, 0, text))
  // A chart has no type of a worksheet, so that its name is found by its position only.
  return [...globals(at), begin(0x20), ...cells]
}

test('RC4 of the tests has the result of its published example', () => {
  expect(rc4(Buffer.from('Key'), Buffer.from('Plaintext')).toString('hex')).toBe('bbf316e8d940af0ad3')
})

test.each<[what: string, infoLength: number, encrypt: (records: Buffer[], password: string) => Buffer]>([
  ['RC4', 58, rc4Workbook],
  ['RC4 of CryptoAPI with 128 bits', 128, (parts, password) => cryptoApiWorkbook(parts, password, 128)],
  ['RC4 of CryptoAPI with 40 bits', 128, (parts, password) => cryptoApiWorkbook(parts, password, 40)],
])('a workbook with the default password is read; one with another is FILE_ENCRYPTED: %s', async (_, infoLength, encrypt) => {
  const { text } = await readBytes(ole({ Workbook: encrypt(records(infoLength), byDefault) }), 'a.xls')
  expect(text.split('\n')).toEqual(['Costs', ...rows])
  expect(await failureOf(ole({ Workbook: encrypt(records(infoLength), 'secret') }), 'a.xls')).toBe('FILE_ENCRYPTED')
})

test('a workbook with XOR obfuscation by the default password is read; one with another key is FILE_ENCRYPTED', async () => {
  const workbook = xorWorkbook(records(10))
  expect((await readBytes(ole({ Workbook: workbook }), 'a.xls')).text.split('\n')).toEqual(['Costs', ...rows])
  workbook.writeUInt16LE(0x1234, workbook.indexOf(Buffer.from('59b30a9a', 'hex')))
  expect(await failureOf(ole({ Workbook: workbook }), 'a.xls')).toBe('FILE_ENCRYPTED')
})

test('a damaged description of the encryption is FILE_ENCRYPTED', async () => {
  const begin = biff(0x809, { u16: 0x600 }, { u16: 5 })
  for (const info of [biff(0x2f), biff(0x2f, { u16: 1 }, { u16: 2 }, { u16: 2 }, { u32: 4 }, { u32: 0xffffffff }), biff(0x2f, { u16: 7 })])
    expect(await failureOf(ole({ Workbook: Buffer.concat([begin, info]) }), 'a.xls')).toBe('FILE_ENCRYPTED')
})
