import { PDFiumLibrary } from '@hyzyla/pdfium'
import type { PageImage } from '../../../src/ports/ocr-engine.ts'

export interface PageLayout {
  /** points (1/72 inch); A4 by default */
  width?: number
  height?: number
  font?: 'Helvetica' | 'Times-Roman' | 'Courier'
  /** points */
  size?: number
  margin?: number
}

/** A PDF with a text layer, one page for each of `pages`, in a standard font of PDF. WinAnsi letters only. */
export function textPdf(pages: readonly (readonly string[])[], layout: PageLayout = {}): Buffer {
  const { width = 595, height = 842, font = 'Helvetica', size = 12, margin = 56 } = layout
  const escaped = (line: string) => line.replace(/[\\()]/g, '\\$&')
  const content = (lines: readonly string[]) =>
    `BT /F ${size} Tf ${size * 1.3} TL ${margin} ${height - margin - size} Td\n${lines.map((line) => `(${escaped(line)}) Tj T*`).join('\n')}\nET`
  const streams = pages.map((lines) => content(lines)).map((text) => `<< /Length ${text.length} >>\nstream\n${text}\nendstream`)
  const kids = pages.map((_, index) => `${4 + index * 2} 0 R`).join(' ')
  return assemblePdf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} /MediaBox [0 0 ${width} ${height}] /Resources << /Font << /F 3 0 R >> >> >>`,
    `<< /Type /Font /Subtype /Type1 /BaseFont /${font} /Encoding /WinAnsiEncoding >>`,
    ...streams.flatMap((stream, index) => [`<< /Type /Page /Parent 2 0 R /Contents ${5 + index * 2} 0 R >>`, stream]),
  ])
}

/** A PDF like those of scanners: one JPEG per page and nothing else. Sizes in pixels at `dpi`. */
export function scannedPdf(pages: readonly { jpeg: Uint8Array; width: number; height: number; dpi: number }[]): Buffer {
  const points = (pixels: number, dpi: number) => ((pixels * 72) / dpi).toFixed(2)
  const objects = pages.flatMap(({ jpeg, width, height, dpi }, index) => {
    const [w, h] = [points(width, dpi), points(height, dpi)]
    const first = 3 + index * 3
    const draw = `q ${w} 0 0 ${h} 0 0 cm /I Do Q`
    return [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${w} ${h}] /Contents ${first + 1} 0 R /Resources << /XObject << /I ${first + 2} 0 R >> >> >>`,
      `<< /Length ${draw.length} >>\nstream\n${draw}\nendstream`,
      `<< /Type /XObject /Subtype /Image /Width ${width} /Height ${height} /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /DCTDecode /Length ${jpeg.length} >>\nstream\n${Buffer.from(jpeg).toString('latin1')}\nendstream`,
    ]
  })
  const kids = pages.map((_, index) => `${3 + index * 3} 0 R`).join(' ')
  return assemblePdf(['<< /Type /Catalog /Pages 2 0 R >>', `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`, ...objects])
}

/** Renders each page of a PDF to gray pixels. */
export async function renderPages(pdf: Uint8Array, dpi: number): Promise<PageImage[]> {
  const library = await PDFiumLibrary.init()
  const document = await library.loadDocument(pdf)
  const images: PageImage[] = []
  for (const page of document.pages()) {
    const { data, width, height } = await page.render({ scale: dpi / 72, render: 'bitmap', colorSpace: 'Gray' })
    images.push({ gray: data, width, height, dpi })
  }
  document.destroy()
  library.destroy()
  return images
}

/** One page with these lines, as OCR engines take it. */
export async function pageImage(
  lines: readonly string[],
  { dpi = 150, ...layout }: PageLayout & { dpi?: number } = {},
): Promise<PageImage> {
  const [image] = await renderPages(textPdf([lines], layout), dpi)
  return image!
}

function assemblePdf(objects: readonly string[]): Buffer {
  let body = '%PDF-1.4\n'
  const offsets = objects.map((object, index) => {
    const offset = body.length
    body += `${index + 1} 0 obj\n${object}\nendobj\n`
    return offset
  })
  const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('')
  const table = `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${rows}`
  return Buffer.from(`${body}${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${body.length}\n%%EOF\n`, 'latin1')
}
