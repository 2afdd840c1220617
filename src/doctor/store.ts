/** The document store and the reading of documents. */
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { markerName, storeFolder } from '../files/store-marker.ts'
import { findOcr } from '../ocr/languages.ts'
import { fail, NotHere, type Opinion, ok, type Question, warn } from './doctor.ts'
import type { Patient } from './installation.ts'
import { lineOf } from './machine.ts'

export const store = (patient: Patient): Question[] => [
  { id: 'storage', about: 'the document store: there, ours, writable', ask: () => storage(patient) },
  { id: 'ocr', about: 'OCR: the engine, its languages, one page', ask: () => ocr(patient) },
]

async function storage(patient: Patient): Promise<Opinion> {
  const { config } = patient.loaded
  if (config.storage.kind !== 'disk') {
    await (await patient.app()).files.check()
    return ok(`${config.storage.kind}: takes files`)
  }
  const path = storeFolder(config)
  const { db } = await patient.database().catch(() => {
    throw new NotHere('the database is out of reach')
  })
  const known = await db
    .selectFrom('instance')
    .select('value')
    .where('key', '=', 'store_id')
    .executeTakeFirst()
    .catch(() => undefined)
  const marker = await lineOf(join(path, markerName))
  if (known && marker !== known.value)
    return fail(
      marker === '' ? `${path} has no ${markerName}: is it not mounted?` : `${path} belongs to another database`,
      `mount it, or set storage.path`,
    )
  const app = await patient.app()
  await app.files.check()
  // A byte on its way in and out again: writable, and tmp_path is on the same file system.
  const staged = await app.files.stage(
    (async function* () {
      yield Buffer.from('dms doctor')
    })(),
    100,
  )
  await staged.discard()
  const temporary = config.storage.tmp_path
  if (temporary !== '' && (await stat(temporary)).dev !== (await stat(path)).dev)
    return fail(`storage.tmp_path ${temporary} is on another file system than ${path}`, 'leave storage.tmp_path empty')
  return config.storage.fsync ? ok(path) : warn('storage.fsync is off: a power cut may lose the latest files', 'storage.fsync = true')
}

async function ocr(patient: Patient): Promise<Opinion> {
  const { config } = patient.loaded
  if (!config.ocr.enabled) throw new NotHere('OCR is switched off')
  const { engine, languages } = await findOcr({
    engine: config.ocr.engine,
    dataPath: config.ocr.data_path || join(config.data_dir, 'tessdata'),
  })
  const wanted = new Set([...config.ocr.languages, ...config.ocr.default_language.split('+')])
  const missing = [...wanted].filter((language) => !languages.has(language))
  if (missing.length > 0)
    return fail(
      `no OCR model for ${missing.join(', ')}`,
      `put ${missing[0]}.traineddata into ${config.ocr.data_path || join(config.data_dir, 'tessdata')}`,
    )
  const app = await patient.app()
  const folder = await mkdtemp(join(tmpdir(), 'dms-doctor-'))
  try {
    const path = join(folder, 'page.png')
    await writeFile(
      path,
      await sharp({ create: { width: 300, height: 100, channels: 3, background: '#fff' } })
        .png()
        .toBuffer(),
    )
    await app.previewer.outline({ path, filename: 'page.png', mimeType: 'image/png' })
    await app.reader.page({ path, filename: 'page.png', mimeType: 'image/png' }, 1, config.ocr.default_language)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return ok(`${engine}: ${[...languages.keys()].sort().join(' ')}`)
}
