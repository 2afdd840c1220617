/** TSV output of Tesseract: a row for each page, block, paragraph, line and word. */
import type { OcrText, OcrWord } from '../../ports/ocr-engine.ts'
import { joinWords } from '../words.ts'

export const tsvHeader = 'level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n'

/** Parses TSV without its header. */
export function parseTsv(tsv: string): OcrText {
  const words: OcrWord[] = []
  let [paragraph, line] = [-1, -1]
  let [lastParagraph, lastLine] = ['', '']
  for (const row of tsv.split('\n')) {
    const [level, , block, paragraphNumber, lineNumber, , left, top, width, height, percent, raw] = row.split('\t')
    const text = raw?.trim()
    if (level !== '5' || !text) continue
    const paragraphKey = `${block}.${paragraphNumber}`
    const lineKey = `${paragraphKey}.${lineNumber}`
    if (paragraphKey !== lastParagraph) paragraph++
    if (lineKey !== lastLine) line++
    ;[lastParagraph, lastLine] = [paragraphKey, lineKey]
    const box = { left: Number(left), top: Number(top), width: Number(width), height: Number(height) }
    words.push({ text, confidence: Math.min(100, Math.max(0, Number(percent) || 0)) / 100, box, line, paragraph })
  }
  return joinWords(words)
}
