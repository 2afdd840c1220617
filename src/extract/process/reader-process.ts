/** One reader process: starts it, gives it work, watches its limits, kills it. */
import type { ChildProcess } from 'node:child_process'
import { linkSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import type { Socket } from 'node:net'
import { dirname, extname, join, resolve as toAbsolute } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../log/log.ts'
import { type FileToRead, ReadFailure } from '../../ports/document-reader.ts'
import type { InstalledOcr } from '../../ports/ocr-engine.ts'
import { killGroup } from '../../processes.ts'
import { type Answer, outputName, type Setup, timeoutNotice, type Work, type WorkMessage } from './messages.ts'
import { makeReaderFolder, removeReaderFolder } from './reader-folders.ts'
import { residentMemory } from './resident-memory.ts'
import { forkSandboxed, type Rights } from './sandbox.ts'
import { enforceLimits } from './work-limits.ts'

/** Maximum works of a process before it is replaced, because parsers leak memory. */
const maxWorks = 1000
/** Maximum time that a process works before it is replaced. */
const maxWorkMs = 15 * 60_000
/** Working time after which the memory of a process is measured again. A measurement takes as long as a small text. */
const memoryCheckMs = 100
const maxStderrLength = 4000
const ownProgram = fileURLToPath(new URL(`./child${extname(fileURLToPath(import.meta.url))}`, import.meta.url))

export interface ProcessSettings {
  readonly limits: Setup['limits']
  readonly ocr: InstalledOcr | null
  readonly converters: Setup['converters']
  readonly tempDir: string
  readonly log: Log
  /** resident memory that the process and its children may hold together */
  readonly memoryBytes: number
  /** the longest timeout of a work */
  readonly maxTimeoutMs: number
  /** result of withoutNetwork() */
  readonly isolation: readonly string[] | null
  /** module that the process runs; default: the child program in this folder */
  readonly program?: string
}

export interface ReaderProcess {
  /** Whether the file is one of the last work. The process keeps the last of them open. */
  hasLastRead(path: string): boolean
  /** Returns whether the process has worked on any other file, which may have damaged it or filled its memory. */
  hasReadOtherThan(path: string): boolean
  /** Whether the process has ended or must be replaced. */
  readonly isWorn: boolean
  /** Runs one request. `timeoutMs` does not count the time of waiting for a processor. Rejects with ReadFailure or with the signal's reason; the process is dead then. */
  run(work: Work, timeoutMs: number, signal?: AbortSignal): Promise<Answer>
  /** Kills the process and its children. Resolves when they are gone and their folder is removed. Never rejects. */
  stop(): Promise<void>
}

/** Starts a process in a sandbox and a folder of its own. */
export function startProcess({
  tempDir,
  log,
  memoryBytes,
  maxTimeoutMs,
  isolation,
  limits,
  ocr: installed,
  converters,
  program = ownProgram,
}: ProcessSettings): ReaderProcess {
  const ocr = installed && {
    engine: installed.engine,
    command: installed.command,
    languages: installed.languages,
    secondModels: installed.secondModels,
    osd: installed.osd,
    quality: installed.quality,
  }
  const setup = { limits, ocr, converters }
  const folder = makeReaderFolder(tempDir)
  // Twice the working time: garbage collection and compilation run in other threads.
  const cpuSeconds = (2 * (maxWorkMs + maxTimeoutMs)) / 1000
  const child = forkSandboxed({ program, rights: rightsFor(setup, folder, dirname(program)), memoryBytes, cpuSeconds, isolation })
  /** links to the files of the last work, by their paths */
  const links = new Map<string, string>()
  let works = 0
  let files = 0
  let workedMs = 0
  let memoryCheckAtMs = memoryCheckMs
  let isTooLarge = false
  let isEnded = false
  let stderr = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-maxStderrLength)
    log.debug({ pid: child.pid, text: chunk.toString().trim() }, 'reader process')
  })
  const ended = exitOf(child)
    .then(() => {
      isEnded = true
      killGroup(child)
      return removeReaderFolder(folder)
    })
    .catch((problem: unknown) => log.warn({ pid: child.pid, problem: String(problem) }, 'a reader process left something behind'))
  if (child.connected) child.send(setup, () => {})
  unreference(child)

  const stop = (): Promise<void> => {
    if (!isEnded) {
      reference(child)
      killGroup(child)
    }
    return ended
  }

  /** Links files into the folder of the process, and removes the other links. Returns the files with the paths of their links. */
  function linkFiles<T extends FileToRead>(files: readonly T[]): T[] {
    const paths = new Set(files.map(({ path }) => path))
    for (const [path, link] of links) {
      if (paths.has(path)) continue
      rmSync(link, { force: true })
      links.delete(path)
    }
    return files.map((file) => ({ ...file, path: links.get(file.path) ?? linkFile(file.path) }))
  }

  function linkFile(path: string): string {
    const link = join(folder, `file-${files++}`)
    try {
      linkSync(path, link)
    } catch {
      // The file is on another file system, or hard links are not supported. A symbolic link takes an inode, whose reuse ext4 delays.
      symlinkSync(toAbsolute(path), link)
    }
    links.set(path, link)
    return link
  }

  /** Links the words of a rendition into the folder of the process. */
  function linkTexts(path: string): string {
    const place = join(folder, 'texts')
    rmSync(place, { force: true })
    linkSync(path, place)
    return place
  }

  /** Returns the work with paths in the folder of the process. */
  function linkWork(work: Work): Work {
    if (work.kind === 'outlines') return { ...work, files: linkFiles(work.files) }
    const [file = work.file] = linkFiles([work.file])
    return work.kind === 'pdfa' ? { ...work, file, texts: linkTexts(work.texts) } : { ...work, file }
  }

  async function run(work: Work, timeoutMs: number, signal?: AbortSignal): Promise<Answer> {
    works++
    const startMs = performance.now()
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const kill = (reason: unknown): void => {
      reject(reason)
      void stop()
    }
    const onAbort = (): void => kill(signal?.reason)
    const onClose = (): void => reject(exitFailure(stderr))
    const onError = (problem: Error): void =>
      kill(new ReadFailure('READ_CRASHED', `The reader process failed: ${problem.message}`, { isRetryable: true }))
    const endLimits = enforceLimits(child, { timeoutMs, memoryBytes }, kill)
    signal?.addEventListener('abort', onAbort, { once: true })
    child.once('message', resolve as (message: unknown) => void)
    // Emitted after the end of standard error, which contains the reason.
    child.once('close', onClose)
    child.once('error', onError)
    reference(child)
    try {
      if (isEnded || !child.connected) throw exitFailure(stderr)
      const message: WorkMessage = { work: linkWork(work), timeoutMs }
      child.send(message, (problem) => problem && kill(exitFailure(stderr)))
      const answer = await promise
      if ('output' in work && !('failure' in answer)) renameSync(join(folder, 'own', outputName), work.output)
      return answer
    } finally {
      workedMs += performance.now() - startMs
      if (workedMs >= memoryCheckAtMs) {
        isTooLarge = residentMemory(child.pid ?? 0) > (memoryBytes * 2) / 3
        memoryCheckAtMs = workedMs + memoryCheckMs
      }
      endLimits()
      signal?.removeEventListener('abort', onAbort)
      child.off('message', resolve)
      child.off('close', onClose)
      child.off('error', onError)
      unreference(child)
    }
  }

  return {
    hasLastRead: (path) => links.has(path),
    hasReadOtherThan: (path) => files > (links.has(path) ? 1 : 0),
    get isWorn() {
      const hasOldModels = ocr?.languages !== installed?.languages
      return isEnded || !child.connected || hasOldModels || works >= maxWorks || workedMs >= maxWorkMs || isTooLarge
    },
    run,
    stop,
  }
}

/** Resolves when the process has ended. A process that could not be started emits no exit. */
function exitOf(child: ChildProcess): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  child.once('exit', () => resolve())
  child.on('error', () => {
    if (child.pid === undefined) resolve()
  })
  return promise
}

/** Makes a writable subfolder: in a writable folder of links, the linked file itself could be changed. */
function rightsFor({ ocr, converters }: Setup, folder: string, programFolder: string): Rights {
  const writable = join(folder, 'own')
  mkdirSync(writable)
  const models = ocr ? [...ocr.languages.values(), ...ocr.secondModels.values(), ...(ocr.osd ? [ocr.osd] : [])] : []
  return {
    writable,
    readable: [folder, programFolder, ...new Set(models.map(({ path }) => path))],
    startsPrograms: ocr?.engine === 'tesseract-native' || Object.keys(converters).length > 0,
  }
}

/** Returns the failure for a process that ended by itself, by its last output. */
function exitFailure(stderr: string): ReadFailure {
  if (stderr.includes(timeoutNotice)) return new ReadFailure('READ_TIMEOUT')
  if (/out of memory|allocation failed/i.test(stderr)) return new ReadFailure('READ_OUT_OF_MEMORY')
  return new ReadFailure('READ_CRASHED', undefined, { isRetryable: true })
}

/** Returns the handles that keep this process from ending while they are referenced. Only those of a busy process are. */
const handlesOf = (child: ChildProcess) => [child, child.channel, child.stderr as Socket | null]

function reference(child: ChildProcess): void {
  for (const handle of handlesOf(child)) handle?.ref()
}

function unreference(child: ChildProcess): void {
  for (const handle of handlesOf(child)) handle?.unref()
}
