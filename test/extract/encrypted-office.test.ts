import { expect, test } from 'vitest'
import { agilePackage, standardPackage } from '../support/data/encrypted-files.ts'
import { docx, paragraph } from '../support/data/office-files.ts'
import { readBytes } from '../support/read-bytes.ts'

/** The password that programs use for files that are only protected against changes. */
const byDefault = 'VelvetSweatshop'
const plain = docx(paragraph('protected words '.repeat(400)))

test.each([
  ['agile', agilePackage],
  ['standard', standardPackage],
])('a document with the default password is read; one with another is FILE_ENCRYPTED: %s encryption', async (_, encrypt) => {
  const { text, mimeType } = await readBytes(encrypt(plain, byDefault), 'a.docx')
  expect(text.trim()).toBe('protected words '.repeat(400).trim())
  expect(mimeType).toMatch(/wordprocessingml/)
  await expect(readBytes(encrypt(plain, 'secret'), 'a.docx')).rejects.toMatchObject({ code: 'FILE_ENCRYPTED' })
})

test.each([
  ['more rounds than programs use', 'spinCount="50000"', 'spinCount="9999999"'],
  ['an unknown hash', 'SHA512', 'SHA999'],
  ['no key', '<p:encryptedKey', '<p:someOtherKey'],
])('FILE_ENCRYPTED for %s', async (_, from, to) => {
  const broken = Buffer.from(agilePackage(plain, byDefault).toString('latin1').replace(from, to), 'latin1')
  await expect(readBytes(broken, 'a.docx')).rejects.toMatchObject({ code: 'FILE_ENCRYPTED' })
})

test('alternative texts of pictures are read, without the folders of inserted files', async () => {
  const picture = (descr: string) =>
    `<w:r><w:drawing><wp:inline><wp:docPr id="1" name="Picture 1" descr="${descr}"/></wp:inline></w:drawing></w:r>`
  const body = `<w:p>${picture('A red house')}</w:p><w:p>${picture('C:\\Users\\ada\\plan.jpg')}</w:p>`
  expect((await readBytes(docx(body), 'a.docx')).text.trim().split(/\s*\n\s*/)).toEqual(['A red house', 'plan.jpg'])
})
