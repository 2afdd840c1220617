/** Generates pages in the bundled languages, separately, mixed and in one file, and in two languages without a model. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp from 'sharp'
import { drawText } from '../support/data/drawn-text.ts'
import { texts } from '../support/data/languages.ts'
import { scannedPdf } from '../support/data/page-image.ts'

const { pol, rus, ...bundled } = texts
const [dpi, size] = [200, 11]

/** Files whose language may have no model on this machine. */
export const withoutModel = ['pol.png', 'rus.png']

/** Writes the pages, each with its text beside it. */
export async function makeLanguages(folder: string): Promise<void> {
  const write = async (name: string, bytes: Uint8Array, text: string) => {
    await writeFile(join(folder, name), bytes)
    await writeFile(join(folder, `${name.replace(/\.\w+$/, '')}.txt`), text)
  }
  const draw = (text: string) => drawText(text, { dpi, size })
  for (const [code, text] of Object.entries({ pol, rus, ...bundled })) await write(`${code}.png`, await draw(text), text)
  for (const [one, other] of [
    ['deu', 'eng'],
    ['fra', 'ita'],
    ['nld', 'por'],
  ] as const) {
    const text = `${texts[one]}\n\n${texts[other]}`
    await write(`${one}-${other}.png`, await draw(text), text)
  }
  const pages = await Promise.all(
    Object.values(bundled).map(async (text) => {
      const { data, info } = await sharp(await draw(text))
        .toColourspace('b-w')
        .jpeg({ quality: 90 })
        .toBuffer({ resolveWithObject: true })
      return { jpeg: data, width: info.width, height: info.height, dpi }
    }),
  )
  await write('all.pdf', scannedPdf(pages), Object.values(bundled).join('\n\n'))
}
