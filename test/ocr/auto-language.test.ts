/** Languages of pages: detected, recognized again in the right model, and named where there is no model. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openLanguageChooser } from '../../src/ocr/auto-language/choose.ts'
import { detectLanguages } from '../../src/ocr/auto-language/detect.ts'
import { findOcr } from '../../src/ocr/languages.ts'
import type { OcrEngine, PageImage } from '../../src/ports/ocr-engine.ts'
import { startApp, upload } from '../support/app.ts'
import { drawText } from '../support/data/drawn-text.ts'
import { texts } from '../support/data/languages.ts'
import { here } from '../support/places.ts'

const german = texts.deu.slice(0, 240)
const english = texts.eng.slice(0, 330)
const polish = texts.pol.slice(0, 240)

test.each(Object.entries(texts))('the language of a text in %s', (code, text) => {
  const iso = { eng: 'en', deu: 'de', fra: 'fr', ita: 'it', nld: 'nl', por: 'pt', spa: 'es', pol: 'pl', rus: 'ru' }[code]
  expect(detectLanguages(text).languages).toEqual([iso])
  expect(detectLanguages(text.slice(0, 120)).languages).toEqual([iso])
})

test('two languages of a text, the more frequent one first; none for figures and for two words', () => {
  expect(detectLanguages(`${texts.deu}\n${texts.eng.slice(0, 400)}`).languages).toEqual(['de', 'en'])
  expect(detectLanguages('1,599.99  17-05-2007  0815  EUR 12').languages).toEqual([])
  expect(detectLanguages('Total amount').languages).toEqual([])
})

test('a second language of a long text, wherever its section is', () => {
  const german = Array.from({ length: 9 }, () => texts.deu).join('\n')
  const english = Array.from({ length: 3 }, () => texts.eng).join('\n')
  expect(detectLanguages(german).languages).toEqual(['de'])
  for (const at of [0, 0.5, 1]) {
    const cut = german.indexOf(' ', Math.floor(german.length * at) - 1)
    const text = cut < 0 ? `${german}\n${english}` : `${german.slice(0, cut)}\n${english}\n${german.slice(cut)}`
    expect(detectLanguages(text).languages).toEqual(['de', 'en'])
  }
})

test('auto reads each page in its language and returns the languages', async () => {
  const { app, asAda, runJobs } = await startApp({ 'ocr.engine': 'tesseract-js' })
  const { id } = await upload(asAda, 'brief.png', await drawText(german))
  const { id: typed } = await upload(asAda, 'note.txt', `${english}\nDated 03/04/2024`)
  await runJobs()
  const letter = await asAda.documents.get(id)
  expect(letter).toMatchObject({ status: 'completed', language: 'auto', detected_languages: ['deu'], warnings: [] })
  expect(letter.content).toContain('Möbel')
  expect(await asAda.documents.get(typed)).toMatchObject({ detected_languages: ['eng'], document_date: '2024-03-04' })
  expect((await asAda.call<{ languages_used: object }>('GET', '/api/metrics/ocr')).languages_used).toEqual({ deu: 1, eng: 1 })
  const { rows } = await sql`select language from search_languages order by 1`.execute(app.db)
  expect(rows).toEqual([{ language: 'deu' }, { language: 'eng' }])
})

const isInstalled = (await findOcr({ engine: 'auto', dataPath: '' })).languages.has('pol')
test.skipIf(isInstalled)(
  `language_missing until the model is there${isInstalled ? ' (skipped: Polish is installed here)' : ''}`,
  async () => {
    const { databaseUrl, dataDir, asAda, asAdmin, runJobs } = await startApp({ 'ocr.engine': 'tesseract-js' })
    const { id } = await upload(asAda, 'list.png', await drawText(polish))
    await runJobs()
    const before = await asAda.documents.get(id)
    const warning = { code: 'language_missing', message: 'There is no OCR model for Polish (pol).', language: 'pol', pages: [1] }
    expect(before).toMatchObject({ status: 'completed', error: null, warnings: [warning], detected_languages: ['pol'] })
    const listed = (code: string) => asAdmin.call<{ data: { id: string }[] }>('GET', `/api/documents?warning=${code}`)
    expect((await listed('language_missing')).data.map((document) => document.id)).toEqual([id])
    expect((await listed('other')).data).toEqual([])
    const diagnose = async () => JSON.parse((await here({ databaseUrl, dataDir }, ['doctor', '--only', 'ocr', '--json'])).stdout).checks[0]
    const retry = 'dms documents list --warning language_missing --all -o id | xargs -r dms documents retry-ocr --language auto'
    expect(await diagnose()).toMatchObject({
      status: 'warn',
      message: 'no OCR model for Polish (1 document)',
      fix: expect.stringMatching(/pol, then /),
    })

    const languages = async () => (await asAda.ocrQueue.languages()).languages.map(({ code }) => code)
    expect(await languages()).not.toContain('pol')
    // The model of another language under this name: what counts is that it is found.
    const model = await readFile(new URL(import.meta.resolve('@tesseract.js-data/nld/4.0.0_best_int/nld.traineddata.gz')))
    await mkdir(join(dataDir, 'tessdata'))
    await writeFile(join(dataDir, 'tessdata', 'pol.traineddata.gz'), model)
    await expect.poll(languages).toContain('pol')
    expect(await diagnose()).toMatchObject({
      status: 'warn',
      message: 'read before their OCR model was installed: Polish (1 document)',
      fix: retry,
    })
    await asAda.documents.retryOcr(id, { language: 'auto' })
    await runJobs()
    expect(await asAda.documents.get(id)).toMatchObject({ language: 'auto', warnings: [], detected_languages: ['pol'] })
    expect((await asAda.documents.pages(id))[0]).toMatchObject({ source: 'ocr', language: 'pol' })
    expect((await diagnose()).status).toBe('ok')
  },
)

test('the script of letters without a model, and the model of an equal script', async () => {
  const image: PageImage = { gray: new Uint8Array(100 * 400), width: 100, height: 400, dpi: 100 }
  const garbage = { text: 'YBaxaembie untarem, Hama pationHas OnOnuoTeka '.repeat(12), confidence: 0.31 }
  const passes: string[] = []
  const recognize = async (language: string) => {
    passes.push(language)
    return language === 'rus' ? { text: texts.rus, confidence: 0.95 } : garbage
  }
  const engine: OcrEngine = {
    name: 'none',
    recognize: async (_, language) => ({ words: [], ...(await recognize(language)) }),
    hasSecondModel: () => false,
    detectScript: async () => 'Cyrl',
    close: async () => {},
  }
  const chooserOf = (...codes: string[]) => openLanguageChooser(engine, new Map(codes.map((code) => [code, { path: '', gzip: false }])))
  expect((await chooserOf('eng', 'deu').recognize(image, recognize)).language).toBe('und-Cyrl')
  const known = chooserOf('eng', 'rus')
  passes.length = 0
  expect((await known.recognize(image, recognize)).language).toBe('rus')
  await known.recognize(image, recognize)
  // The first two pages show the language; the third is recognized once.
  passes.length = 0
  expect((await known.recognize(image, recognize)).text).toBe(texts.rus)
  expect(passes).toEqual(['rus'])
})
