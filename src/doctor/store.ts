/** Checks the document store and OCR. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { sql } from 'kysely'
import sharp from 'sharp'
import { ConfigError } from '../errors.ts'
import { findConverters } from '../extract/converters/find-converters.ts'
import { rejectOtherDatabase } from '../files/database-marker.ts'
import { markerName, storeFolder } from '../files/store-marker.ts'
import { storeMarkers } from '../files/stores/registry.ts'
import { otherKind } from '../files/used-stores.ts'
import { dms } from '../log/fix.ts'
import { findOcr } from '../ocr/languages.ts'
import { describeMissing, installCommand, listMissing, type MissingLanguage } from '../ocr/missing-languages.ts'
import { autoLanguage, type OcrSetup } from '../ports/ocr-engine.ts'
import { type Check, type CheckResult, fail, ok, SkippedCheck, warn } from './doctor.ts'
import { type LazyInstallation, reachDatabase } from './installation.ts'

export const storeChecks = (installation: LazyInstallation): Check[] => [
  { id: 'storage', about: 'document store: mounted, of this database, writable', run: () => checkStorage(installation) },
  { id: 'stores', about: 'second document store: reachable, files left to move', run: () => checkSecondary(installation) },
  { id: 'ocr', about: 'OCR engine, its languages, a test page', run: () => checkOcr(installation) },
  { id: 'converters', about: 'optional programs that read further types', run: () => checkConverters(installation) },
]

async function checkStorage(installation: LazyInstallation): Promise<CheckResult> {
  const { storage } = installation.loaded.config
  const path = storeFolder(installation.loaded.config)
  const isDisk = storage.kind === 'disk'
  const problem = isDisk ? await findMarkerProblem(installation, path) : null
  if (problem !== null) return fail(problem, 'mount it, or set storage.path')
  await rejectOther(installation)
  const app = await installation.app()
  await app.files.check()
  const staged = await app.files.stage(Readable.from([Buffer.from('dms doctor')]), 100)
  await staged.discard()
  if (!isDisk) return ok(app.stores.locate(storage.kind) ?? storage.kind)
  return storage.fsync ? ok(path) : warn('storage.fsync is off: a power failure may lose the latest files', 'storage.fsync = true')
}

/** Throws ConfigError if another database uses the store. All other errors are those of the app. */
async function rejectOther(installation: LazyInstallation): Promise<void> {
  const { config } = installation.loaded
  const { db } = await reachDatabase(installation)
  await rejectOtherDatabase(db, await storeMarkers(config), config).catch((error: unknown) => {
    if (error instanceof ConfigError) throw error
  })
}

/** Returns the reason why the folder is not the store of this database, or null if it is. */
async function findMarkerProblem(installation: LazyInstallation, path: string): Promise<string | null> {
  const { db } = await reachDatabase(installation)
  const row = await db
    .selectFrom('instance')
    .select('value')
    .where('key', '=', 'store_id')
    .executeTakeFirst()
    .catch(() => undefined)
  const marker = (await readFile(join(path, markerName), 'utf8').catch(() => '')).trim()
  if (!row || marker === row.value) return null
  return marker === '' ? `${path} has no ${markerName}: is it not mounted?` : `${path} belongs to another database`
}

async function checkOcr(installation: LazyInstallation): Promise<CheckResult> {
  const { ocr, data_dir } = installation.loaded.config
  if (!ocr.enabled) throw new SkippedCheck('OCR is disabled')
  const dataPath = ocr.data_path || join(data_dir, 'tessdata')
  const { engine, languages } = await findOcr({ engine: ocr.engine, dataPath })
  const required = [...ocr.languages, ...ocr.default_language.split('+')].filter((language) => language !== autoLanguage)
  const missing = [...new Set(required)].filter((language) => !languages.has(language))
  if (missing.length > 0) return fail(`no OCR model for ${missing.join(', ')}`, `copy ${missing[0]}.traineddata to ${dataPath}`)
  const app = await installation.app()
  const folder = await mkdtemp(join(tmpdir(), 'dms-doctor-'))
  try {
    const page = { path: join(folder, 'page.png'), filename: 'page.png', mimeType: 'image/png' }
    const blank = sharp({ create: { width: 300, height: 100, channels: 3, background: '#fff' } })
    await writeFile(page.path, await blank.png().toBuffer())
    await app.previewer.outline(page)
    await app.reader.page(page, 1, ocr.default_language)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  const installed = `${engine}: ${[...languages.keys()].sort().join(' ')}`
  return findUnreadable(await listMissing(app), engine, languages) ?? ok(installed)
}

/** Warns of documents in languages without a model, and of documents read before the model was installed. Returns null if there are none. */
function findUnreadable(all: readonly MissingLanguage[], engine: OcrSetup['engine'], languages: OcrSetup['languages']): CheckResult | null {
  const [first] = all
  if (!first) return null
  const missing = all.filter(({ language }) => language === null || !languages.has(language))
  const retry = [dms`documents list --warning language_missing --all -o id`, ' | xargs -r ', dms`documents retry-ocr --language auto`]
  if (missing[0]) return warn(`no OCR model for ${describeMissing(missing)}`, [`${installCommand(missing[0], engine)}, then `, ...retry])
  return warn(`read before their OCR model was installed: ${describeMissing(all)}`, retry)
}

async function checkConverters(installation: LazyInstallation): Promise<CheckResult> {
  const { db } = await installation.app()
  const { rows } = await sql<{ package: string; documents: number }>`
    select warning ->> 'package' as package, count(distinct id)::int as documents
    from live_documents, jsonb_array_elements(warnings) warning
    where warnings <> '[]' and warning ->> 'code' = 'program_missing' group by 1 order by 2 desc, 1`.execute(db)
  const found = Object.keys(findConverters(installation.loaded.config.ocr.converters)).join(' ')
  if (rows[0] === undefined) return ok(found || 'none')
  const counts = rows.map(({ package: name, documents }) => `${documents} for ${name}`).join(', ')
  return warn(`documents without text for lack of a program: ${counts}`, [
    `apt install ${rows[0].package}, restart dms, then `,
    dms`documents list --warning program_missing --all -o id`,
    ' | xargs -r ',
    dms`documents retry-ocr`,
  ])
}

async function checkSecondary(installation: LazyInstallation): Promise<CheckResult> {
  const { stores } = await installation.app()
  const kind = otherKind[stores.primary]
  const store = await stores.open(kind)
  if (store === null) throw new SkippedCheck('there is one document store')
  await store.check()
  for await (const _ of store.list()) {
    return ok(`files are left in ${stores.locate(kind)}: dms storage status`)
  }
  return ok(`${stores.locate(kind)} is empty, and is not needed once all servers run with storage.kind = "${stores.primary}"`)
}
