/** Manifest of a backup in a directory. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { shellWord } from '../log/escape.ts'
import { dms } from '../log/fix.ts'
import { nullIfMissing } from '../missing-file.ts'
import { BackupDamaged, Manifest, manifestCopyPath, manifestPath, parseJson } from './manifest.ts'

/** A manifest, and its text, which the signature covers. */
export interface ManifestText {
  readonly manifest: Manifest
  readonly text: string
}

/** Reads the manifest of a directory. Returns null for none. Throws BackupDamaged for an invalid one, and errors of the file system. */
export const readFolderManifest = async (folder: string): Promise<Manifest | null> =>
  (await readFolderManifestText(folder))?.manifest ?? null

/** Reads the manifest of a directory with its text, like readFolderManifest(). */
export async function readFolderManifestText(folder: string): Promise<ManifestText | null> {
  const text = await readFile(join(folder, manifestPath), 'utf8').catch(nullIfMissing)
  return text === null ? null : { manifest: await parseFolderManifest(folder, text), text }
}

/** Parses the manifest of a directory. Throws BackupDamaged with the command that repairs it. */
export async function parseFolderManifest(folder: string, text: string): Promise<Manifest> {
  const path = join(folder, manifestPath)
  try {
    return parseJson(Manifest, path, text)
  } catch (error) {
    throw new BackupDamaged(
      (error as Error).message,
      (await findManifestCopy(folder)) ?? [
        `if the installation still exists: rm ${shellWord(path)}, then `,
        dms`backup create --format dir --to ${folder}`,
        ', which keeps all intact files',
      ],
    )
  }
}

/** Returns the command that restores the manifest from its newest copy; null without an intact copy. */
export async function findManifestCopy(folder: string): Promise<string | null> {
  const ids = await readdir(join(folder, 'data')).catch((): string[] => [])
  const read = (id: string) => readFile(join(folder, manifestCopyPath(id)), 'utf8')
  const copies = await Promise.all(ids.map(async (id) => parseJson(Manifest, id, await read(id))).map((copy) => copy.catch(() => null)))
  const [newest] = copies.filter((copy) => copy !== null).sort((one, two) => (one.finished_at < two.finished_at ? 1 : -1))
  return newest ? `cp ${shellWord(join(folder, manifestCopyPath(newest.id)))} ${shellWord(join(folder, manifestPath))}` : null
}
