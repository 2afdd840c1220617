/** Converts words of pages to rows of `page_words` and to answers of the API. */
import { z } from 'zod'
import type { PageWord, WordRow } from '../../ports/document-reader.ts'

/** Boxes are stored in parts of the page's width and height, confidences in percent. */
const boxUnits = 10_000

export const WordAnswer = z.object({
  text: z.string(),
  confidence: z.number(),
  box: z
    .object({ left: z.number(), top: z.number(), width: z.number(), height: z.number() })
    .describe('Fractions of the width and height of the page as displayed.'),
})

/** Returns a word as it is stored. */
export const toRow = ({ text, confidence, box }: PageWord): WordRow => {
  const [left, top, width, height] = [box.left, box.top, box.width, box.height].map((part) => Math.round(part * boxUnits))
  return [text, Math.round(confidence * 100), left!, top!, width!, height!]
}

/** Returns a stored word as the API shows it. */
export const toWord = ([text, confidence, left, top, width, height]: WordRow): z.infer<typeof WordAnswer> => ({
  text,
  confidence: confidence / 100,
  box: { left: left / boxUnits, top: top / boxUnits, width: width / boxUnits, height: height / boxUnits },
})
