import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { streamMembers } from '../../src/extract/readers/archive.ts'
import { image, scan } from '../support/data/files.ts'
import { docx, packedSpaces, paragraph, zip } from '../support/data/office-files.ts'
import { failureOf, readBytes, readImages } from '../support/read-bytes.ts'

const picture = await image(await scan(['hello'], { width: 300, height: 60 }))
  .png()
  .toBuffer()

/** Returns a tar archive; `type` 0 is a file. A long name precedes its file in the form of pax or GNU tar. */
function tar(members: readonly { name: string; data: Uint8Array | string; type?: string }[]): Buffer {
  const blocks = members.flatMap(({ name, data, type = '0' }) => {
    const content = Buffer.from(data as string)
    const header = Buffer.alloc(512)
    header.write(name, 0, 100)
    header.write(`0000644\0${'0000000\0'.repeat(2)}${content.length.toString(8).padStart(11, '0')}\0${'0'.repeat(11)}\0`, 100, 'latin1')
    header.write(`        ${type}`, 148, 'latin1')
    header.write('ustar\u000000', 257, 'latin1')
    const sum = header.reduce((total, byte) => total + byte, 0)
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
    return [header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]
  })
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

/** Two texts named Käse ümläut.txt and письмо.txt, and an archive with an encrypted list. */
const sevenZip = Buffer.from(
  'N3q8ryccAASXosjIowAAAAAAAAAWAAAAAAAAAH96ln4BABxHcsO8w59lIGF1cyBLw7ZsbtC/0YDQuNCy0LXRggDgAI4Ael0AAIEzB64P0B3SfJ85EJxxRPOspJXJC+25KlfZUX75pmKk6NJViA5VsA7r+uhyMA6JzRSyqGsvt/9UWqBqnPEr24HIlu/6j79qgSl0DaQ6z0DI4fOH1Vzb8Y5iMZ0rorre68qIMc5fbnWPkWc5l+FR8GTRXuUJbOUAAAAAFwYhAQmAggAHCwEAASEhARgMgI8AAA==',
  'base64',
)
const encryptedSevenZip = Buffer.from(
  'N3q8ryccAARoo2zsgAAAAAAAAAAoAAAAAAAAAEwavQRFOyUa3iIXBtL7Oy/15sVjoSqtPwl4oVp1lTkCgosvFx7iYmv06c0ZNhh89mG8dO0gTiQgn2yC0mQHmVp3bSZbu+faawmhLXLkfLFBxVR/VuD+Gj4rDtly1f/uZtYOYpZWz5oU8scAIm1sJSyJXBZp+IkVnhZoQolmsqcMex4GDBcGEAEJcAAHCwEAASQG8QcBElMPAKElAFpmI8TaWf8R+9EZEQxtAAA=',
  'base64',
)
/** 300 MB of zeros, compressed by gzip. */
const zeros = gzipSync(Buffer.alloc(300 * 1024 * 1024), { level: 1 })

describe('an archive is one document', () => {
  test('zip: names and contents of the members, images as pages for OCR, nested archives too', async () => {
    const inner = zip({ 'deep/note.txt': 'at the bottom' })
    const bytes = zip({
      'Käse.txt': 'first words',
      'a/letter.docx': docx(paragraph('second words')),
      'scan.png': picture,
      'inner.zip': inner,
    })
    const read = await readBytes(bytes, 'a.zip')
    expect(read).toMatchObject({ mimeType: 'application/zip', hasReader: true, metadata: { member_count: 4 } })
    expect(read.text.split(/\n+/)).toEqual([
      ...['Käse.txt', 'first words', 'a/letter.docx', 'second words', 'scan.png', 'inner.zip', 'deep/note.txt', 'at the bottom', '---', ''],
    ])
    expect(read.pages.map(({ needsOcr }) => needsOcr)).toEqual([false, true])
    expect(await readImages(bytes, 'a.zip')).toEqual([expect.objectContaining({ width: 300, height: 60 })])
  })

  test('zip: each of several members with one name', async () => {
    const bytes = zip({ 'a.txt': 'first words', 'b.txt': 'second words' })
    const renamed = Buffer.from(bytes.toString('latin1').replaceAll('b.txt', 'a.txt'), 'latin1')
    expect((await readBytes(renamed, 'a.zip')).text.split(/\n+/)).toEqual(['a.txt', 'first words', 'a.txt', 'second words'])
  })

  test.each([
    ['DOS', 'K\x84se', 'Käse'],
    ['DOS of Central Europe', '\x88\xa2d\xab', 'łódź'],
    ['Windows', 'K\xe4se', 'Käse'],
    ['Windows of Central Europe', '\x9e\xe1dost', 'žádost'],
    ['Russian Windows', '\xd1\xf7\xb8\xf2 \xe7\xe0 \xec\xe0\xf0\xf2', 'Счёт за март'],
  ])('names in the code page of %s; system files are omitted', async (_, bytes, name) => {
    const placeholder = '?'.repeat(bytes.length)
    const named = zip({ [`${placeholder}.txt`]: 'words', '__MACOSX/x': 'no', 'a/.DS_Store': 'no' })
    const renamed = Buffer.from(named.toString('latin1').replaceAll(placeholder, bytes), 'latin1')
    expect((await readBytes(renamed, 'a.zip')).text).toBe(`${name}.txt\nwords`)
  })

  test('tar and tar.gz: long names of pax and GNU; a truncated one is read up to its end', async () => {
    const long = `${'folder/'.repeat(20)}Größe.txt`
    const bytes = tar([
      { name: 'a.txt', data: 'first' },
      { name: 'link', data: '', type: '2' },
      { name: 'x', data: `${Buffer.byteLength(long) + 10} path=${long}\n`, type: 'x' },
      { name: 'short', data: 'second' },
      { name: '././@LongLink', data: `long/${long}\0`, type: 'L' },
      { name: 'short', data: 'third' },
      { name: 'b.txt', data: 'fourth' },
    ])
    const lines = ['a.txt', 'first', long, 'second', `long/${long}`, 'third', 'b.txt', 'fourth']
    expect((await readBytes(bytes, 'a.tar')).text.split(/\n+/)).toEqual(lines)
    expect(await readBytes(gzipSync(bytes), 'a.tgz')).toMatchObject({ mimeType: 'application/gzip', metadata: { member_count: 4 } })
    const cut = await readBytes(gzipSync(bytes.subarray(0, 700)), 'a.tgz')
    expect(cut.text).toBe('a.txt\nfirst')
  })

  test('7z; only names lose letters beyond ASCII', async () => {
    const { mimeType, text } = await readBytes(sevenZip, 'a.7z')
    expect(mimeType).toBe('application/x-7z-compressed')
    expect(text.split(/\n+/)).toEqual([expect.stringMatching(/^K.se .ml.ut\.txt$/), 'Grüße aus Köln', expect.any(String), 'привет'])
  })

  test('7z: a member is read any number of times, in any order, also after the end of the list', async () => {
    const { libarchiveWasm, ArchiveReader } = await import('libarchive-wasm')
    const library = await libarchiveWasm()
    const members = streamMembers(() => new ArchiveReader(library, new Int8Array(sevenZip)))
    const textAt = (position: number) => Buffer.from(members.read(position)).toString()
    const listed = []
    for (const { position } of members.list()) listed.push(textAt(position), textAt(position))
    expect(listed).toEqual(['Grüße aus Köln', 'Grüße aus Köln', 'привет', 'привет'])
    expect([...members.list()]).toHaveLength(2)
    expect([1, 1, 0, 0, 1].map(textAt)).toEqual(['привет', 'привет', 'Grüße aus Köln', 'Grüße aus Köln', 'привет'])
  })

  test('gz of one file is read as that file: text, image, drawing', async () => {
    expect(await readBytes(gzipSync('the words'), 'a.txt.gz')).toMatchObject({ mimeType: 'application/gzip', text: 'the words' })
    expect(await readImages(gzipSync(picture), 'a.png.gz')).toEqual([expect.objectContaining({ width: 300 })])
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>drawn</text></svg>'
    expect((await readBytes(gzipSync(svg), 'a.svgz')).text).toBe('drawn')
  })
})

describe('hostile archives', () => {
  test('bombs: listed, not unpacked; the following members are read', async () => {
    const lying = { ...packedSpaces(300), size: 10 }
    const bombs = zip({ 'honest.bin': packedSpaces(300), 'lying.txt': lying, 'after.txt': 'words' })
    expect(await readBytes(bombs, 'a.zip')).toMatchObject({
      text: 'honest.bin\n\nlying.txt\n\nafter.txt\nwords',
      metadata: { member_count: 3, parts_unread: 1 },
    })
    expect(await failureOf(zeros, 'a.gz')).toBe('FILE_TOO_COMPLEX')
    expect(await readBytes(zip({ 'bomb.gz': zeros, 'after.txt': 'words' }), 'a.zip')).toMatchObject({ text: 'bomb.gz\n\nafter.txt\nwords' })
  })

  test('an empty member has been read', async () => {
    const { text, metadata } = await readBytes(zip({ '__init__.py': '', 'after.txt': 'words' }), 'a.zip')
    expect([text, metadata.parts_unread]).toEqual(['__init__.py\n\nafter.txt\nwords', undefined])
  })

  test('endless nesting: members of the fourth level are not read, which the outermost archive states', async () => {
    let bytes = zip({ 'bottom.txt': 'bottom' })
    for (let level = 0; level < 6; level++) bytes = zip({ [`${level}.zip`]: bytes })
    const { text, metadata } = await readBytes(bytes, 'a.zip')
    expect([text.split(/\n+/), metadata.parts_unread]).toEqual([['5.zip', '4.zip', '3.zip', '2.zip'], 1])
  })

  test('more than 2000 members: all are listed, the first are read', async () => {
    const many = Object.fromEntries(Array.from({ length: 2500 }, (_, i) => [`${i}.txt`, 'word']))
    const { text, metadata } = await readBytes(zip(many), 'a.zip')
    expect([text.match(/\.txt/g)?.length, text.match(/word/g)?.length, metadata.parts_unread]).toEqual([2500, 2000, 500])
  })

  test('FILE_ENCRYPTED if the list of members is encrypted; FILE_CORRUPT for a truncated zip; no reader for other files', async () => {
    expect(await failureOf(encryptedSevenZip, 'a.7z')).toBe('FILE_ENCRYPTED')
    expect(await failureOf(zip({ 'a.txt': 'words' }).subarray(0, 40), 'a.zip')).toBe('FILE_CORRUPT')
    expect(await readBytes(Buffer.from('BZh91AY&SY\0\0\0\0 nothing'), 'a.bz2')).toMatchObject({ hasReader: false, text: '' })
  })
})
