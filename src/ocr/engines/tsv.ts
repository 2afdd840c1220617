import type { OcrText } from '../../ports/ocr-engine.ts'

/** Reads Tesseract's TSV (no header line): words joined to lines, an empty line between paragraphs, and the confidence of the page. */
export function readTsv(tsv: string): OcrText {
  let text = ''
  let characters = 0
  let confidence = 0
  let [lastParagraph, lastLine] = ['', '']
  for (const row of tsv.split('\n')) {
    const [level, , block, paragraph, line, , , , , , percent, raw] = row.split('\t')
    const word = raw?.trim()
    if (level !== '5' || !word) continue
    const inParagraph = `${block}.${paragraph}`
    const inLine = `${inParagraph}.${line}`
    if (text !== '') text += inLine === lastLine ? ' ' : inParagraph === lastParagraph ? '\n' : '\n\n'
    text += word
    ;[lastParagraph, lastLine] = [inParagraph, inLine]
    const length = [...word].length
    characters += length
    confidence += length * Math.min(100, Math.max(0, Number(percent) || 0))
  }
  return { text, confidence: characters === 0 ? null : confidence / characters / 100 }
}
