/** PDFs, written by hand. */

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1')

export interface PdfPageSpec {
  /** lines of the page, in Helvetica, which every PDF reader has */
  text?: readonly string[]
  /** distance of lines in points; the font size is 0.7 of it */
  leading?: number
  /** a JPEG over the whole page, or a part of it */
  jpeg?: { bytes: Uint8Array; width: number; height: number; share?: number }
  /** drawing operators */
  draw?: string
  width?: number
  height?: number
  rotate?: number
  /** references to annotations */
  annots?: string
}

export interface PdfSpec {
  pages: readonly PdfPageSpec[]
  info?: Record<string, string>
  /** a missing page at the end */
  brokenPage?: boolean
  locked?: boolean
  attachment?: { filename: string; content: string }
  /** further objects, numbered from 900 */
  objects?: Record<number, string>
  resources?: string
  /** further fonts, beside F1 */
  fonts?: string
  /** further entries of the catalog */
  catalog?: string
}

const escapePdf = (text: string): string => text.replace(/[\\()]/g, (letter) => `\\${letter}`)

/** Writes a PDF of pages with lines of text and pictures. */
export function pdf({
  pages,
  info = {},
  brokenPage,
  locked,
  attachment,
  objects = {},
  resources = '',
  fonts = '',
  catalog = '',
}: PdfSpec): Buffer {
  const parts: { number: number; body: Buffer }[] = []
  const add = (number: number, ...chunks: (string | Uint8Array)[]): void => {
    parts.push({ number, body: Buffer.concat(chunks.map((chunk) => (typeof chunk === 'string' ? bytes(chunk) : chunk))) })
  }
  const kids = pages.map((_, i) => `${10 + i * 3} 0 R`)
  if (brokenPage) kids.push('899 0 R')
  const files = attachment ? `/Names << /EmbeddedFiles << /Names [(${escapePdf(attachment.filename)}) 6 0 R] >> >>` : ''
  add(1, `<< /Type /Catalog /Pages 2 0 R ${files} ${catalog} >>`)
  add(2, `<< /Type /Pages /Kids [${kids.join(' ')}] /Count ${kids.length} >>`)
  add(3, '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>')
  const entries = Object.entries(info).map(([key, value]) => `/${key} (${escapePdf(value)})`)
  add(4, `<< ${entries.join(' ')} >>`)
  if (locked) add(5, `<< /Filter /Standard /V 1 /R 2 /Length 40 /P -1 /O <${'5a'.repeat(32)}> /U <${'a5'.repeat(32)}> >>`)
  if (attachment) {
    add(6, `<< /Type /Filespec /F (${escapePdf(attachment.filename)}) /EF << /F 7 0 R >> >>`)
    add(7, `<< /Type /EmbeddedFile /Length ${attachment.content.length} >>\nstream\n${attachment.content}\nendstream`)
  }
  pages.forEach(({ text = [], leading = 20, jpeg, draw = '', width = 595, height = 842, rotate = 0, annots = '' }, i) => {
    const at = 10 + i * 3
    const share = jpeg?.share ?? 1
    const picture = jpeg ? `q ${width * share} 0 0 ${height * share} 0 0 cm /Im Do Q\n` : ''
    const lines = text.map((line, row) => `1 0 0 1 50 ${height - 60 - row * leading} Tm (${escapePdf(line)}) Tj`)
    const words = lines.length > 0 ? `BT /F1 ${leading * 0.7} Tf ${lines.join(' ')} ET\n` : ''
    const content = picture + draw + words
    const images = jpeg ? `/XObject << /Im ${at + 2} 0 R >>` : ''
    add(
      at,
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${width} ${height}] /Rotate ${rotate} /Annots [${annots}] /Contents ${at + 1} 0 R /Resources << /Font << /F1 3 0 R ${fonts} >> ${images} ${resources} >> >>`,
    )
    add(at + 1, `<< /Length ${content.length} >>\nstream\n${content}\nendstream`)
    if (jpeg) {
      const head = `<< /Type /XObject /Subtype /Image /Width ${jpeg.width} /Height ${jpeg.height} /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /DCTDecode /Length ${jpeg.bytes.length} >>\nstream\n`
      add(at + 2, head, jpeg.bytes, '\nendstream')
    }
  })
  for (const [number, body] of Object.entries(objects)) add(Number(number), body)
  return joinPdf(parts, locked ? '/Encrypt 5 0 R /ID [<00> <00>]' : '')
}

function joinPdf(parts: readonly { number: number; body: Buffer }[], trailer: string): Buffer {
  const chunks: Buffer[] = [bytes('%PDF-1.4\n')]
  const places = new Map<number, number>()
  let length = chunks[0]!.length
  const push = (chunk: Buffer): void => {
    chunks.push(chunk)
    length += chunk.length
  }
  for (const { number, body } of parts) {
    places.set(number, length)
    push(bytes(`${number} 0 obj\n`))
    push(body)
    push(bytes('\nendobj\n'))
  }
  const start = length
  const rows = [...places].map(([number, at]) => `${number} 1\n${String(at).padStart(10, '0')} 00000 n \n`)
  push(
    bytes(
      `xref\n0 1\n0000000000 65535 f \n${rows.join('')}trailer\n<< /Size ${Math.max(...places.keys()) + 1} /Root 1 0 R /Info 4 0 R ${trailer} >>\nstartxref\n${start}\n%%EOF\n`,
    ),
  )
  return Buffer.concat(chunks)
}

/** A small PDF that never ends: forms that draw forms that draw forms. */
export function endlessPdf(): Buffer {
  const depth = 12
  const objects: Record<number, string> = {}
  for (let level = 0; level < depth; level++) {
    const content = level === depth - 1 ? 'BT /F1 1 Tf (x) Tj ET 0 0 1 1 re f' : '/X Do '.repeat(12)
    const next = level === depth - 1 ? '/Font << /F1 3 0 R >>' : `/XObject << /X ${901 + level} 0 R >>`
    objects[900 + level] =
      `<< /Type /XObject /Subtype /Form /BBox [0 0 100 100] /Resources << ${next} >> /Length ${content.length} >>\nstream\n${content}\nendstream`
  }
  return pdf({ pages: [{ draw: '/X Do ' }], objects, resources: '/XObject << /X 900 0 R >>' })
}
