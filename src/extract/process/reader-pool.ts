/** Pool of reader processes. A bad file costs one of them, never the server. */

import { stat } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { openSlots } from '../../concurrency.ts'
import type { Log } from '../../log/log.ts'
import { type DocumentReader, ReadFailure, type ReadOptions } from '../../ports/document-reader.ts'
import { autoLanguage, type InstalledOcr } from '../../ports/ocr-engine.ts'
import type { Converters } from '../converters/find-converters.ts'
import type { Limits } from '../opened-document.ts'
import { openOutput, writeTexts } from './exchanged-files.ts'
import type { Answer, Work } from './messages.ts'
import { makeReaderFolder, removeReaderFolder, removeStaleFolders } from './reader-folders.ts'
import { type ReaderProcess, startProcess } from './reader-process.ts'
import { withoutNetwork } from './sandbox.ts'

export interface ReaderSettings {
  /** number of files read at the same time; 0: one per core */
  slots: number
  /** parent of the folders of the processes */
  tempDir: string
  log: Log
  /** null: no OCR */
  ocr: InstalledOcr | null
  /** default: none */
  converters?: Converters
  /** module that the processes run; default: the child program in this folder */
  program?: string
  limits: Limits & {
    /** maximum for large files; smaller ones get less */
    outlineTimeoutMs: number
    pageTimeoutMs: number
    thumbnailTimeoutMs: number
    /** memory of one process and its children */
    memoryBytes: number
  }
}

/** Time for the outline of a file, without the time by its size. The slowest real files take a second for each MiB. */
const outlineBaseMs = 45_000
const outlineMsPerByte = 10_000 / 1024 ** 2
/** Time after which a process without work is stopped. */
const idleTimeoutMs = 60_000

/** Opens the reader. Processes start with the first work; close() resolves when all of them and their folders are gone. */
export function openReader({
  slots: configuredSlots,
  tempDir,
  log,
  ocr,
  converters = {},
  program,
  limits,
}: ReaderSettings): DocumentReader {
  const { outlineTimeoutMs, pageTimeoutMs, thumbnailTimeoutMs, memoryBytes, ...documentLimits } = limits
  const slots = configuredSlots > 0 ? configuredSlots : availableParallelism()
  const idle = new Map<ReaderProcess, NodeJS.Timeout>()
  const all = new Set<ReaderProcess>()
  const { acquire, release, releaseAll } = openSlots(slots)
  let isClosed = false
  let isolation: readonly string[] | null | undefined
  const maxTimeoutMs = Math.max(outlineTimeoutMs, pageTimeoutMs, thumbnailTimeoutMs)
  const settings = { tempDir, log, ocr, converters, memoryBytes, maxTimeoutMs, program, limits: documentLimits }
  removeStaleFolders(tempDir)

  /** Returns an idle process, preferably one that has the file open, else a new one. */
  function takeProcess(path: string): ReaderProcess {
    const candidates = [...idle.keys()]
    const chosen = candidates.find((process) => process.hasLastRead(path)) ?? candidates[0]
    if (!chosen) return startNewProcess()
    clearTimeout(idle.get(chosen))
    idle.delete(chosen)
    if (!chosen.isWorn) return chosen
    stop(chosen)
    return takeProcess(path)
  }

  function startNewProcess(): ReaderProcess {
    if (isolation === undefined) isolation = withoutNetwork()
    const started = startProcess({ ...settings, isolation })
    all.add(started)
    return started
  }

  function returnProcess(process: ReaderProcess): void {
    if (isClosed || process.isWorn) {
      stop(process)
      return
    }
    const timer = setTimeout(() => {
      idle.delete(process)
      stop(process)
    }, idleTimeoutMs)
    idle.set(process, timer.unref())
  }

  function stop(process: ReaderProcess): void {
    void process.stop().then(() => all.delete(process))
  }

  async function run(work: Work, timeoutMs: number, { signal, turn = '' }: ReadOptions = {}): Promise<SuccessfulAnswer> {
    signal?.throwIfAborted()
    await acquire(turn, signal)
    try {
      if (isClosed) throw closedFailure()
      const { path = '' } = ('files' in work ? work.files[0] : work.file) ?? {}
      const process = takeProcess(path)
      const isShared = process.hasReadOtherThan(path)
      return await runIn(process, work, timeoutMs, signal).catch((problem) => {
        if (!isShared || !isFailureOfProcess(problem)) throw problem
        log.debug({ code: problem.code }, 'read again in a new process')
        return runIn(startNewProcess(), work, timeoutMs, signal)
      })
    } catch (problem) {
      throw isClosed && problem instanceof ReadFailure ? closedFailure() : problem
    } finally {
      release()
    }
  }

  /** Runs a work in a process, and stops the process if it has failed. */
  async function runIn(process: ReaderProcess, work: Work, timeoutMs: number, signal?: AbortSignal): Promise<SuccessfulAnswer> {
    if (isClosed) throw closedFailure()
    try {
      const answer = await process.run(work, timeoutMs, signal)
      if (!('failure' in answer)) {
        returnProcess(process)
        return answer
      }
      const { code, message, isRetryable } = answer.failure
      const failure = new ReadFailure(code, message, { isRetryable })
      if (!isFailureOfProcess(failure)) returnProcess(process)
      throw failure
    } catch (problem) {
      if (!idle.has(process)) stop(process)
      throw problem
    }
  }

  /** Runs a work and returns the part `kind` of the answer. Throws ReadFailure. */
  async function request<K extends Work['kind']>(
    kind: K,
    work: Omit<Extract<Work, { kind: K }>, 'kind'>,
    timeoutMs: number,
    options?: ReadOptions,
  ): Promise<Extract<Answer, Record<K, unknown>>[K]> {
    const answer = await run({ kind, ...work } as unknown as Work, timeoutMs, options)
    return (answer as Extract<Answer, Record<K, unknown>>)[kind]
  }

  /** Calls `make` with a folder and an output path in it. Then returns the result of `use` for the bytes of the output. */
  async function withOutput<T>(
    make: (folder: string, output: string) => Promise<unknown>,
    use: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
  ): Promise<T> {
    const folder = makeReaderFolder(tempDir)
    try {
      const output = join(folder, 'output')
      await make(folder, output)
      return await use(await openOutput(output))
    } finally {
      await removeReaderFolder(folder)
    }
  }

  return {
    slots,
    async outline(file, options) {
      const { size } = await stat(file.path)
      return request('outline', { file }, Math.min(outlineTimeoutMs, outlineBaseMs + size * outlineMsPerByte), options)
    },
    outlines: (files, options) => request('outlines', { files }, Math.min(outlineTimeoutMs, outlineBaseMs), options),
    async page(file, page, language, options) {
      if (!ocr) throw new ReadFailure('OCR_FAILED', 'There is no OCR on this machine.')
      await ocr.refresh()
      if (ocr.languages.size === 0) throw new ReadFailure('OCR_LANGUAGE_MISSING', 'No OCR language is installed.')
      const missing = language === autoLanguage ? [] : language.split('+').filter((code) => !ocr.languages.has(code))
      if (missing.length > 0) throw new ReadFailure('OCR_LANGUAGE_MISSING', `The OCR language ${missing.join(', ')} is not installed.`)
      return request('page', { file, page, language }, pageTimeoutMs, options)
    },
    pdfa: (file, texts, info, use, options) =>
      withOutput(async (folder, output) => {
        const path = join(folder, 'texts')
        await writeTexts(path, texts)
        await request('pdfa', { file, info, texts: path, output }, outlineTimeoutMs, options)
      }, use),
    thumbnail: (file, box, type, { page = 1, ...options } = {}) =>
      request('thumbnail', { file, page, box, type }, thumbnailTimeoutMs, options),
    words: (file, page, options) => request('words', { file, page }, thumbnailTimeoutMs, options),
    marks: (file, pages, { withBarcodes, ...options }) =>
      request('marks', { file, pages, withBarcodes }, pages.length * pageTimeoutMs, options),
    copyPages: (file, pages, use, options) =>
      withOutput((_, output) => request('part', { file, pages, output }, outlineTimeoutMs, options), use),
    async close() {
      isClosed = true
      for (const timer of idle.values()) clearTimeout(timer)
      idle.clear()
      releaseAll()
      await Promise.all([...all].map((process) => process.stop()))
    },
  }
}

type SuccessfulAnswer = Exclude<Answer, { failure: unknown }>

/** Returns whether the process may have failed because of an earlier file. Such a failure counts only if it happens in a new process too. */
const isFailureOfProcess = (problem: unknown): problem is ReadFailure =>
  problem instanceof ReadFailure && ['READ_CRASHED', 'READ_OUT_OF_MEMORY', 'OCR_FAILED'].includes(problem.code)

const closedFailure = (): ReadFailure => new ReadFailure('READ_CRASHED', 'The reader is closed.', { isRetryable: true })
