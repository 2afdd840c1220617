/** Saving of downloads: safe names and atomic writes. */
import { createHash, randomBytes } from 'node:crypto'
import { link, open, readdir, rename, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { baseName, truncateFilename } from '../../documents/file-names.ts'
import { addPath } from '../../missing-file.ts'
import { hasEnded, pidNamespace, processIdentity } from '../../processes.ts'
import { Failure } from '../runtime/exit.ts'

/** Longest file name in bytes on common file systems. */
const maxBytes = 255

/**
 * Returns a safe file name: the last path segment without control and bidirectional characters, leading dots and dashes, limited
 * to `maxBytes`.
 */
export function safeName(name: string): string {
  const clean = baseName(name.toWellFormed().normalize('NFC'))
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '_')
    .trim()
    .replace(/^[.-]+/, '_')
  return clean === '' ? 'document' : truncateFilename(clean, maxBytes)
}

export interface ExpectedContent {
  /** bytes; null: unknown */
  readonly size: number | null
  /** hex; null: unknown */
  readonly sha256: string | null
}

export interface SavedContent {
  readonly bytes: number
  readonly sha256: string
}

interface SaveOptions {
  readonly canOverwrite: boolean
  /** gets the size of each chunk after it was written */
  readonly onBytes?: (count: number) => void
}

/**
 * Writes `body` to a temporary file, verifies it, syncs it to disk and renames it to `path`. Throws Failure CONFLICT if `path` exists and
 * `canOverwrite` is false, FAILED if the content is not as expected.
 */
export async function saveFile(
  body: AsyncIterable<Uint8Array>,
  path: string,
  expected: ExpectedContent,
  { canOverwrite, onBytes = () => {} }: SaveOptions,
): Promise<SavedContent> {
  const temporary = temporaryPath(path)
  const file = await open(temporary, 'wx', 0o666)
  try {
    const saved = await copyChunks(body, async (chunk) => {
      await file.writeFile(chunk).catch(addPath(path))
      onBytes(chunk.length)
    })
    verifyContent(saved, expected)
    await file.sync().catch(addPath(path))
    if (canOverwrite) await rename(temporary, path)
    else
      await renameWithoutOverwrite(temporary, path).catch((error: NodeJS.ErrnoException) => {
        throw error.code === 'EEXIST' ? fileExistsError(path) : error
      })
    return saved
  } finally {
    await file.close()
    await unlink(temporary).catch(() => {})
  }
}

/** Returns a path for an incomplete file, in the folder of `path`. The name identifies the process that writes it. */
export const temporaryPath = (path: string): string =>
  join(dirname(path), `.dms-${processIdentity.join('-')}-${randomBytes(6).toString('hex')}.part`)

/** Age at which an incomplete file belongs to a dead process, if this host cannot tell. */
const stalePartMs = 86_400_000

/** Removes the incomplete files that dead processes have left in the folder. Keeps those that this user may not remove. */
export async function removeStaleParts(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const [part, ...owner] = /^\.dms-(?:([0-9a-f]{12})-(\d+)-(\d+)-)?[0-9a-f]{12}\.part$/.exec(name) ?? []
    if (part !== undefined && (owner[0] === pidNamespace ? hasEnded(owner) : await isOld(join(folder, part))))
      await unlink(join(folder, part)).catch(() => {})
  }
}

const isOld = async (path: string): Promise<boolean> => {
  const about = await stat(path).catch(() => null)
  return about !== null && Date.now() - about.mtimeMs > stalePartMs
}

/**
 * Gives a complete file its name. Throws EEXIST if the name is taken: link() fails then, rename() would replace the other file. The caller removes
 * `temporary`, which may be left.
 */
export async function renameWithoutOverwrite(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(code)) throw error
    // File system without hard links: create the target exclusively, then replace it.
    await (await open(path, 'wx')).close()
    await rename(temporary, path)
  }
}

export const fileExistsError = (path: string): Failure =>
  new Failure('CONFLICT', `${path} exists`, { fix: 'pass --clobber to replace it, or another path to --to' })

/** Passes each chunk to `write`. Returns size and checksum. */
export async function copyChunks(body: AsyncIterable<Uint8Array>, write: (chunk: Uint8Array) => Promise<void>): Promise<SavedContent> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of body) {
    hash.update(chunk)
    bytes += chunk.length
    await write(chunk)
  }
  return { bytes, sha256: hash.digest('hex') }
}

/** Throws Failure FAILED if size or checksum differ. */
export function verifyContent({ bytes, sha256 }: SavedContent, expected: ExpectedContent): void {
  if (expected.size !== null && bytes !== expected.size)
    throw new Failure('FAILED', `received ${bytes} of ${expected.size} bytes`, { fix: 'repeat the command' })
  if (expected.sha256 !== null && sha256 !== expected.sha256)
    throw new Failure('FAILED', 'the received file differs from the stored file (SHA-256)', { fix: 'repeat the command' })
}
