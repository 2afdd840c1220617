/** A dms with a synced source: a folder of this machine, or of a WebDAV server. */
import { rm, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { SyncOptions } from '../../../src/sources/routes.ts'
import { startApp } from '../app.ts'
import { makeFolder } from './source-folder.ts'

type Settings = Parameters<typeof startApp>[0]
type Fields = Partial<Parameters<Awaited<ReturnType<typeof startApp>>['asAdmin']['sources']['create']>[0]>

interface Place {
  /** folder of the source on this machine */
  root: string
  put(path: string, bytes: string): Promise<void>
  /** address of the source; default: the folder */
  fields?: Fields
}

/** Default place: a folder of this machine. */
export async function startSynced(settings: Settings = {}, place?: Place) {
  const { root, put, fields }: Place = place ?? (await makeFolder())
  const dms = await startApp({ 'sources.local_roots': root, 'ocr.enabled': false, ...settings })
  const source = await dms.asAdmin.sources.create({ name: 'share', type: 'local_folder', url: root, ...fields })
  const names = (count: number, from = 0) => Array.from({ length: count }, (_, index) => `in/${index + from}.txt`)
  return {
    ...dms,
    root,
    source,
    put,
    names,
    /** writes files with unique bytes */
    fill: async (paths: readonly string[], word = 'clean') => {
      for (const path of paths) await put(path, `${word} ${path}`)
    },
    remove: async (paths: readonly string[]) => {
      for (const path of paths) await rm(join(root, path))
    },
    /** changes the modification time of files without their bytes */
    touch: async (paths: readonly string[]) => {
      for (const path of paths) await utimes(join(root, path), new Date(), new Date(Date.now() + 3_600_000))
    },
    /** syncs and returns the result */
    sync: async (options: Partial<(typeof SyncOptions)['_output']> = {}) => {
      await dms.asAdmin.sources.sync(source.id, options)
      await dms.runJobs(['sync'])
      return dms.asAdmin.sources.syncStatus(source.id)
    },
    /** the live documents of the source by path */
    documents: async () => {
      const all = await Array.fromAsync(dms.asAdmin.documents.list({ source_id: source.id }))
      return new Map(all.map((document) => [document.source_path ?? '', document]))
    },
    /** everything that a sync may change: rows of documents, versions and the ledger, without run markers */
    state: async () => ({
      documents: await dms.app.db.selectFrom('documents').selectAll().orderBy('id').execute(),
      versions: await dms.app.db.selectFrom('document_versions').selectAll().orderBy('document_id').orderBy('number').execute(),
      files: (await dms.app.db.selectFrom('source_files').selectAll().orderBy('path').execute()).map(
        ({ run_id: _, seen_by: __, ...file }) => file,
      ),
    }),
  }
}
