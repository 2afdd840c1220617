/** Input and output of both Tesseract engines: variables, the page as a file, names of scripts. */
import type { OcrLayout, PageImage } from '../../ports/ocr-engine.ts'

/** Tesseract variables. Disables the search for fixed pitch, which the LSTM networks do not use. */
export const tesseractVariables = { textord_all_prop: '1' }

/** Tesseract's page segmentation modes. */
export const segmentationModes = { auto: '3', block: '6', sparse: '11' } as const satisfies Record<OcrLayout, string>

const [short, long] = [3, 4]

/**
 * Returns the page as an uncompressed TIFF: a header in front of the pixels. Tesseract takes a twentieth longer for PGM, which it reads byte by byte.
 */
export function toTiff({ gray, width, height }: PageImage): Buffer {
  const fields = [
    [256, long, width],
    [257, long, height],
    [258, short, 8], // bits per sample
    [259, short, 1], // no compression
    [262, short, 1], // 0 is black
    [273, long, 0], // offset of the pixels: the length of this header
    [277, short, 1], // samples per pixel
    [278, long, height], // rows in the only strip
    [279, long, gray.length],
  ] as const
  const header = Buffer.alloc(8 + 2 + fields.length * 12 + 4)
  header.write('II*\0', 'latin1')
  header.writeUInt32LE(8, 4)
  header.writeUInt16LE(fields.length, 8)
  for (const [index, [tag, type, value]] of fields.entries()) {
    const at = 10 + index * 12
    header.writeUInt16LE(tag, at)
    header.writeUInt16LE(type, at + 2)
    header.writeUInt32LE(1, at + 4)
    header.writeUInt32LE(tag === 273 ? header.length : value, at + 8)
  }
  return Buffer.concat([header, gray])
}

/** Confidence of a script that is probably right. A wrong one rarely has more than 1. */
const minScriptConfidence = 1
/** ISO 15924 codes of the scripts that the model `osd` detects. */
const scriptCodes: Readonly<Record<string, string>> = Object.fromEntries(
  (
    'Arabic:Arab Armenian:Armn Bengali:Beng Cyrillic:Cyrl Devanagari:Deva Ethiopic:Ethi Georgian:Geor Greek:Grek Gujarati:Gujr Gurmukhi:Guru ' +
    'Han:Hani HanS:Hani HanT:Hani Hangul:Kore Hebrew:Hebr Japanese:Jpan Kannada:Knda Khmer:Khmr Korean:Kore Lao:Laoo Latin:Latn Malayalam:Mlym ' +
    'Myanmar:Mymr Oriya:Orya Sinhala:Sinh Tamil:Taml Telugu:Telu Thai:Thai Tibetan:Tibt'
  )
    .split(' ')
    .map((pair) => pair.split(':') as [string, string]),
)

/** Returns the ISO 15924 code of a script that the model `osd` names; null if it is not certain. */
export const scriptCode = (name: string | undefined, confidence: number): string | null =>
  confidence >= minScriptConfidence ? (scriptCodes[name ?? ''] ?? null) : null
