/** Files as a server sends them: what they are called, what they must be, and where on this disk they go. */
import { mkdir, stat } from 'node:fs/promises'
import type { Cli } from '../runtime/context.ts'
import { usage } from '../runtime/exit.ts'
import { copyChunks, type ExpectedContent, type SavedContent, verifyContent } from './save-file.ts'

/** Where something goes: a folder, in which names are chosen, or one file. */
export type DownloadTarget = { folder: string } | { file: string }

/** A folder is what is one already, what ends with a slash, and what several files go to; it is made where it is missing. Throws Failure USAGE. */
export async function resolveDownloadTarget(to: string, count: number): Promise<DownloadTarget> {
  const about = await stat(to).catch(() => null)
  if (!about?.isDirectory() && !to.endsWith('/') && count === 1) return { file: to }
  await mkdir(to, { recursive: true }).catch((error: Error) => {
    throw usage(`--to ${to}: ${error.message}`)
  })
  return { folder: to }
}

/** The name that the answer gives its file; '' where it gives none. It is not safe yet. */
export async function parseFileName({ headers }: Response): Promise<string> {
  const { parse } = await import('content-disposition')
  try {
    return parse(headers.get('content-disposition') ?? '').parameters.filename ?? ''
  } catch {
    return ''
  }
}

/** What the server says that the file is; a proxy may have packed it, and then its length is not that of the file. */
export function expectedContent({ headers }: Response): ExpectedContent {
  const digest = /sha-256=:([\w+/=]{44}):/.exec(headers.get('repr-digest') ?? '')?.[1]
  const length = headers.get('content-encoding') === null ? headers.get('content-length') : null
  return { size: length === null ? null : Number(length), sha256: digest ? Buffer.from(digest, 'base64').toString('hex') : null }
}

export const bodyChunks = ({ body }: Response): AsyncIterable<Uint8Array> => (body ?? []) as AsyncIterable<Uint8Array>

/** Throws Failure USAGE where the bytes of a file would go to a screen. */
export function rejectTerminal(cli: Cli): void {
  if (cli.options.isTerminal) throw usage('the bytes of a file would go to this terminal', 'send the output to a file or a program')
}

/** The body to standard output, as fast as it is read there, and checked at its end. */
export async function writeToStdout(cli: Cli, response: Response): Promise<SavedContent> {
  const saved = await copyChunks(bodyChunks(response), (chunk) => {
    cli.signal.throwIfAborted()
    return writeChunk(chunk)
  })
  verifyContent(saved, expectedContent(response))
  return saved
}

/** Resolves when the reader of the pipe has taken it. */
export const writeChunk = (chunk: Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => process.stdout.write(chunk, (error) => (error ? reject(error) : resolve())))
