/** The backups in the configured folder: archives made one after the other, and folders that are brought up to date. */
import { createReadStream } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { gathered } from './bytes.ts'
import { manifestOf } from './create/folder-sink.ts'
import { entryAt, Head, maxHeadBytes, parsed } from './manifest.ts'
import { readTar } from './tar.ts'

export interface Shelved {
  name: string
  created_at: string
  /** bytes; of a folder those of the stored files */
  size: number
  documents: number
  /** the last migration */
  schema: string
  version: string
  /** false: was never finished */
  complete: boolean
}

/** The name of a new archive. */
export const archiveName = (now: Date): string => `dms-${now.toISOString().replace(/[-:]|\.\d+/g, '')}.tar`

/** The folder that is brought up to date by `--format dir` unless another one is named. */
export const folderName = 'dms'

const archive = /^dms-\d{8}T\d{6}Z\.tar(\.partial)?$/

/** All of them, the newest first. What cannot be read is no backup. */
export async function shelved(folder: string): Promise<Shelved[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const found = await Promise.all(names.map((name) => look(join(folder, name)).catch(() => null)))
  return found.filter((one) => one !== null).sort((one, two) => (one.created_at < two.created_at ? 1 : -1))
}

async function look(path: string): Promise<Shelved | null> {
  const { size, isFolder } = await stat(path).then((found) => ({ size: found.size, isFolder: found.isDirectory() }))
  const name = basename(path)
  if (isFolder) {
    const manifest = await manifestOf(path)
    return manifest && row(name, manifest, manifest.bytes, true)
  }
  if (!/\.tar(\.partial)?$/.test(name)) return null
  const head = await firstOf(path)
  return head && row(name, head, size, !name.endsWith('.partial'))
}

/** The head of an archive, which is its first entry. */
async function firstOf(path: string): Promise<Head | null> {
  const stream = createReadStream(path)
  try {
    for await (const { path: inside, bytes } of readTar(stream)) {
      if (entryAt(inside)?.kind !== 'head') return null
      return parsed(Head, inside, (await gathered(bytes, maxHeadBytes, inside)).toString())
    }
    return null
  } finally {
    stream.destroy()
  }
}

const row = (name: string, { created_at, documents, migrations, dms }: Head, size: number, complete: boolean): Shelved => ({
  name,
  created_at,
  size,
  documents,
  schema: migrations.at(-1) ?? '',
  version: dms,
  complete,
})

/** Milliseconds after which an unfinished archive that nothing was written to belongs to nobody. */
const abandoned = 3_600_000

/** Archives that `keep` newer ones make superfluous, and those that were given up in the middle. Only what dms named itself. */
export async function superfluous(folder: string, keep: number): Promise<Shelved[]> {
  const ours = (await shelved(folder)).filter(({ name }) => archive.test(name))
  const isAbandoned = async ({ name }: Shelved) => Date.now() - (await stat(join(folder, name))).mtimeMs > abandoned
  const unfinished = ours.filter(({ complete }) => !complete)
  const given = await Promise.all(unfinished.map(isAbandoned))
  return [...unfinished.filter((_, index) => given[index]), ...ours.filter(({ complete }) => complete).slice(keep)]
}

export const remove = (folder: string, name: string): Promise<void> => rm(join(folder, name), { force: true })
