/** Calendars and contacts. */
import { expect, test } from 'vitest'
import { eml } from '../support/data/files.ts'
import { readBytes } from '../support/read-bytes.ts'

const event = [
  'BEGIN:VCALENDAR',
  'VERSION:2.0',
  'DESCRIPTION:Agenda\\nBudget for the har',
  ' bour\\, part 2\\; in C:\\\\new',
  'ATTACH;FMTTYPE=image/png;ENCODING=BASE64;VALUE=BINARY:iVBORw0K',
  ' GgoAAAA',
  'END:VCALENDAR',
].join('\r\n')
const eventText = 'BEGIN:VCALENDAR\nVERSION:2.0\nDESCRIPTION:Agenda\nBudget for the harbour, part 2; in C:\\new\nEND:VCALENDAR'

test('a calendar: folded lines are joined, escapes are decoded, binary values left out', async () => {
  expect(await readBytes(Buffer.from(event), 'a.ics')).toMatchObject({ mimeType: 'text/calendar', text: eventText })
})

test('a fold inside a character', async () => {
  const [before = '', after = ''] = Buffer.from('BEGIN:VCARD\nNOTE:Grüße\n')
    .toString('latin1')
    .split(/(?<=\xc3)(?=\xbc)/)
  expect((await readBytes(Buffer.from(`${before}\r\n ${after}`, 'latin1'), 'a.vcf')).text.trim()).toBe('BEGIN:VCARD\nNOTE:Grüße')
})

test('a calendar in a mail', async () => {
  const parts = [
    { headers: { 'Content-Type': 'text/plain' }, body: 'You are invited.' },
    { headers: { 'Content-Type': 'text/calendar; charset=utf-8; method=REQUEST' }, body: event },
  ]
  expect((await readBytes(eml({ From: 'a@example.org', Subject: 's' }, parts), 'a.eml')).text).toContain(eventText)
})

test.each([
  ['4.0', 'PHOTO:data:image/jpeg;base64,/9j/4AAQ\r\n SkZJRg==', 'NOTE:Buda', ' pest', 'NOTE:Budapest'],
  ['3.0', 'item1.PHOTO;ENCODING=b;TYPE=JPEG:/9j/4AAQ\r\n SkZJRg==', 'NOTE:Buda', ' pest', 'NOTE:Budapest'],
  ['2.1', 'PHOTO;JPEG;ENCODING=BASE64:\r\n /9j/4AAQ\r\n SkZJRg==\r\n', 'NOTE:the', ' harbour', 'NOTE:the harbour'],
])('contacts of version %s, without photos', async (version, photo, first, second, note) => {
  const card = ['BEGIN:VCARD', `VERSION:${version}`, photo, first, second, 'END:VCARD'].join('\r\n')
  const { mimeType, text } = await readBytes(Buffer.from(card), 'a.vcf')
  expect([mimeType, text]).toEqual(['text/vcard', `BEGIN:VCARD\nVERSION:${version}\n${note}\nEND:VCARD`])
})

test.each([
  ['UTF-8', '=C3=BC'],
  ['ISO-8859-1', '=FC'],
])('quoted-printable contacts in %s', async (charset, letter) => {
  const card = `BEGIN:VCARD\r\nVERSION:2.1\r\nFN;CHARSET=${charset};ENCODING=QUOTED-PRINTABLE:M${letter}l=\r\nler\r\nEND:VCARD`
  expect((await readBytes(Buffer.from(card), 'a.vcf')).text).toContain(':Müller\nEND')
})
