/** Files from a server onto this disk: under a name that does no harm, whole or not at all. */
import { createHash, randomBytes } from 'node:crypto'
import { link, open, rename, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { baseName, truncateFilename } from '../../documents/file-names.ts'
import { Failure } from '../runtime/exit.ts'

/** Bytes of a file name that every common file system takes. */
const maxBytes = 255

/**
 * The name as a file of this disk may be called: its last part, without control characters and marks that turn text around, not hidden, not
 * taken for an option, not too long.
 */
export function safeName(name: string): string {
  const clean = baseName(name.toWellFormed().normalize('NFC'))
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '_')
    .trim()
    .replace(/^[.-]+/, '_')
  return clean === '' ? 'document' : truncateFilename(clean, maxBytes)
}

export interface ExpectedContent {
  /** bytes; null where the server did not say */
  readonly size: number | null
  /** hex; null likewise */
  readonly sha256: string | null
}

export interface SavedContent {
  readonly bytes: number
  readonly sha256: string
}

/**
 * Writes `body` to `path`: beside it first, then checked, on the disk, and renamed, so that nobody ever sees half of it. Without `overwrites` a
 * file that came there meanwhile is left alone. Throws Failure CONFLICT for that, FAILED where it is not what was expected.
 */
export async function saveFile(
  body: AsyncIterable<Uint8Array>,
  path: string,
  expected: ExpectedContent,
  overwrites: boolean,
  onBytes: (count: number) => void,
): Promise<SavedContent> {
  const temporary = join(dirname(path), `.dms-${randomBytes(6).toString('hex')}.part`)
  const file = await open(temporary, 'wx', 0o666)
  try {
    const saved = await copyChunks(body, async (chunk) => {
      await file.writeFile(chunk)
      onBytes(chunk.length)
    })
    verifyContent(saved, expected)
    await file.sync()
    if (overwrites) await rename(temporary, path)
    else await renameWithoutOverwrite(temporary, path)
    return saved
  } finally {
    await file.close()
    await unlink(temporary).catch(() => {})
  }
}

/** A rename would silently replace what is there; a link does not. */
async function renameWithoutOverwrite(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') throw fileExistsError(path)
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(code)) throw error
    // No links on this file system: claim the name, then replace the claim.
    const claim = await open(path, 'wx').catch((reason: NodeJS.ErrnoException) => {
      throw reason.code === 'EEXIST' ? fileExistsError(path) : reason
    })
    await claim.close()
    await rename(temporary, path)
  }
}

export const fileExistsError = (path: string): Failure =>
  new Failure('CONFLICT', `${path} exists`, { fix: 'pass --clobber to replace it, or another name or folder to --to' })

/** Hands every chunk to `write`; what went through. */
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

/** Throws Failure FAILED where something is missing or was changed on the way. */
export function verifyContent({ bytes, sha256 }: SavedContent, expected: ExpectedContent): void {
  if (expected.size !== null && bytes !== expected.size)
    throw new Failure('FAILED', `${bytes} bytes arrived, but it has ${expected.size}; try again`)
  if (expected.sha256 !== null && sha256 !== expected.sha256)
    throw new Failure('FAILED', 'what arrived is not what is stored (SHA-256 differs); try again')
}
