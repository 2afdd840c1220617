/** Text on layers of PDFs. */
import { deflateSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { openFile } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { hasLayers } from '../../src/extract/readers/pdf/layers.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { readTools } from '../support/read-bytes.ts'

const stream = (entries: string, content: string): string => `<< ${entries} /Length ${content.length} >>\nstream\n${content}\nendstream`
const line = (word: string, y: number): string => `BT /F1 12 Tf 50 ${y} Td (${word}) Tj ET`
const form = (layer: string, content: string): string =>
  stream(
    `/Type /XObject /Subtype /Form /BBox [0 0 600 800] ${layer} /Resources << /Font << /F1 3 0 R >> /Properties << /Off 901 0 R >> >>`,
    content,
  )

/** A page with a shown layer, a hidden one in four ways, empty texts, and an annotation. */
const layered = (off: string): Buffer =>
  pdf({
    pages: [
      {
        annots: '906 0 R',
        draw: [
          `${line('plain', 700)} BT () Tj [-200] TJ ET /OC /On BDC ${line('shown', 680)} EMC`,
          `/OC /Off BDC /Span BMC ${line('hidden', 660)} EMC EMC /OC /Group BDC ${line('grouped', 640)} EMC`,
          `/Hidden Do /Shown Do ${line('last', 500)}\n`,
        ].join(' '),
      },
    ],
    objects: {
      900: '<< /Type /OCG /Name (german) >>',
      901: '<< /Type /OCG /Name (draft) >>',
      902: '<< /Type /OCMD /OCGs [901 0 R] /P /AnyOn >>',
      903: form('/OC 901 0 R', line('watermark', 600)),
      904: form('', `${line('form', 580)} /OC /Off BDC ${line('inner', 560)} EMC`),
      905: form('', '/F1 12 Tf BT 50 50 Td (stamp) Tj ET'),
      906: '<< /Type /Annot /Subtype /Stamp /Rect [50 400 250 420] /AP << /N 905 0 R >> >>',
    },
    resources: '/Properties << /On 900 0 R /Off 901 0 R /Group 902 0 R >> /XObject << /Hidden 903 0 R /Shown 904 0 R >>',
    catalog: `/OCProperties << /OCGs [900 0 R 901 0 R] /D << /OFF [${off}] >> >>`,
  })

async function read(bytes: Uint8Array) {
  const opened = await openFile(bytesSource(bytes, 'a.pdf'), readTools)
  const [page] = (await opened.contents()).pages
  const words = (await opened.words!(1)).map(([word]) => word)
  opened.close()
  return { text: page!.text.split(/\s+/), words }
}

test('text on a hidden layer is neither text nor a word of the page; that of other layers is', async () => {
  const shown = ['plain', 'shown', 'form', 'last']
  expect(await read(layered('901 0 R'))).toEqual({ text: [...shown, 'stamp'], words: shown })
  const { text } = await read(layered(''))
  expect(text).toEqual(['plain', 'shown', 'hidden', 'grouped', 'watermark', 'form', 'inner', 'last', 'stamp'])
})

test.each(['\n', '\r\n'])('layers are found in a compressed catalog', (lineEnd) => {
  const objectStream = (content: string) =>
    Buffer.concat([
      ...[Buffer.from(`7 0 obj << /Type /ObjStm /N 1 /First 4 /Filter /FlateDecode >> stream${lineEnd}`), deflateSync(content)],
      Buffer.from('\nendstream endobj\n'),
    ])
  const pages = objectStream('2 0 << /Type /Pages >>')
  expect(hasLayers(Buffer.concat([pages, objectStream('1 0 << /Type /Catalog /OCProperties 3 0 R >>')]))).toBe(true)
  expect(hasLayers(Buffer.concat([pages, Buffer.from('8 0 obj << /Type /ObjStm >> stream\nplain\nendstream')]))).toBe(false)
})
