/** Downloads: file name, checksum and target path. */
import { access, constants, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createFolder } from '../../folders.ts'
import type { Cli } from '../runtime/context.ts'
import { unusablePath, usage } from '../runtime/exit.ts'
import { copyChunks, type ExpectedContent, removeStaleParts, type SavedContent, verifyContent } from './save-file.ts'

/** Target of a download: a folder or one file. */
export type DownloadTarget = { folder: string } | { file: string }

/**
 * Resolves --to. An existing folder, a trailing slash or several files mean a folder, which is created if missing. Removes the incomplete files that
 * killed commands have left there. Throws Failure USAGE, also if the user may not write there.
 */
export async function resolveDownloadTarget(to: string, count: number): Promise<DownloadTarget> {
  const stats = await stat(to).catch(() => null)
  const isFile = !stats?.isDirectory() && !to.endsWith('/') && count === 1
  if (!isFile)
    await createFolder(to).catch((error: Error) => {
      throw unusablePath('--to', to, error)
    })
  const folder = isFile ? dirname(to) : to
  await requireWritableFolder(folder, to)
  await removeStaleParts(folder)
  return isFile ? { file: to } : { folder: to }
}

/** Throws Failure USAGE if the folder does not exist, or the user may not write there. `to` is the value of --to. */
export async function requireWritableFolder(folder: string, to: string): Promise<void> {
  // The slash makes a file that is no folder fail.
  await access(`${folder}/`, constants.W_OK).catch((error: Error) => {
    throw unusablePath('--to', to, error)
  })
}

/** Returns the file name of the answer, not yet safe; '' if it has none. */
export async function parseFileName({ headers }: Response): Promise<string> {
  const { parse } = await import('content-disposition')
  try {
    return parse(headers.get('content-disposition') ?? '').parameters.filename ?? ''
  } catch {
    return ''
  }
}

/** Returns size and SHA-256 of the answer. With Content-Encoding the length is not that of the file. */
export function expectedContent({ headers }: Response): ExpectedContent {
  const digest = /sha-256=:([\w+/=]{44}):/.exec(headers.get('repr-digest') ?? '')?.[1]
  const length = headers.get('content-encoding') === null ? headers.get('content-length') : null
  return { size: length === null ? null : Number(length), sha256: digest ? Buffer.from(digest, 'base64').toString('hex') : null }
}

export const bodyChunks = ({ body }: Response): AsyncIterable<Uint8Array> => (body ?? []) as AsyncIterable<Uint8Array>

/** Throws Failure USAGE if standard output is a terminal. */
export function rejectTerminal(cli: Cli): void {
  if (cli.options.isTerminal) throw usage('standard output is a terminal', 'redirect it to a file or a program')
}

/** Makes writes to standard output fail once the reader has gone. Commands without this call end successfully then. */
export const rejectClosedReader = (): void => void process.stdout.removeAllListeners('error').on('error', () => {})

/** Writes the body to standard output, with backpressure, and verifies it. */
export async function writeToStdout(cli: Cli, response: Response): Promise<SavedContent> {
  const saved = await copyChunks(bodyChunks(response), (chunk) => {
    cli.signal.throwIfAborted()
    return writeChunk(chunk)
  })
  verifyContent(saved, expectedContent(response))
  return saved
}

/** Resolves when the chunk was written. */
export const writeChunk = (chunk: Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => process.stdout.write(chunk, (error) => (error ? reject(error) : resolve())))
