/** Reads users' files in processes that can be killed: a bad file costs one of them, never the server. */
import { availableParallelism } from 'node:os'
import type { Log } from '../../log/log.ts'
import { type DocumentReader, ReadFailure } from '../../ports/document-reader.ts'
import type { OcrSetup } from '../../ports/ocr-engine.ts'
import type { Answer, Work } from './messages.ts'
import { removeStaleFolders } from './reader-folders.ts'
import { type ReaderProcess, startProcess } from './reader-process.ts'
import { withoutNetwork } from './sandbox.ts'

export interface ReaderSettings {
  /** files read at the same time; 0: as many as there are cores */
  slots: number
  /** below it the processes have their folders */
  tempDir: string
  log: Log
  /** null: pages are never recognised */
  ocr: OcrSetup | null
  limits: {
    /** milliseconds */
    outlineTimeout: number
    /** milliseconds */
    pageTimeout: number
    /** milliseconds */
    thumbnailTimeout: number
    /** bytes that one process and those it starts may hold */
    memory: number
    /** pages of one file that OCR reads */
    maxPages: number
    /** pixels of one decoded picture */
    maxPixels: number
    /** of rendered PDF pages */
    dpi: number
  }
}

/** how long a process without work is kept warm */
const idleTime = 60_000

/** Opens the reader; processes start with the first work. `close()` resolves when none of them, and nothing of theirs, is left. */
export function openReader({ slots: wanted, tempDir, log, ocr, limits }: ReaderSettings): DocumentReader {
  const slots = wanted > 0 ? wanted : availableParallelism()
  const idle = new Map<ReaderProcess, NodeJS.Timeout>()
  const all = new Set<ReaderProcess>()
  const waiting: (() => void)[] = []
  let working = 0
  let isClosed = false
  let isolation: readonly string[] | null | undefined
  removeStaleFolders(tempDir)

  const settings = {
    tempDir,
    log,
    ocr,
    memory: limits.memory,
    longestWorkMs: Math.max(limits.outlineTimeout, limits.pageTimeout, limits.thumbnailTimeout),
    limits: { maxPages: limits.maxPages, maxPixels: limits.maxPixels, dpi: limits.dpi },
  }

  /** First come, first served. */
  async function turn(signal?: AbortSignal): Promise<void> {
    if (working < slots) {
      working++
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const giveUp = (): void => {
      const place = waiting.indexOf(resolve)
      if (place < 0) return
      waiting.splice(place, 1)
      reject(signal?.reason)
    }
    waiting.push(resolve)
    signal?.addEventListener('abort', giveUp, { once: true })
    await promise.finally(() => signal?.removeEventListener('abort', giveUp))
  }

  function pass(): void {
    const next = waiting.shift()
    if (next) next()
    else working--
  }

  /** A process that has the file open already, else any that is idle, else a new one. */
  function take(path: string): ReaderProcess {
    const usable = [...idle.keys()]
    const chosen = usable.find((process) => process.lastPath === path) ?? usable[0]
    if (chosen) {
      clearTimeout(idle.get(chosen))
      idle.delete(chosen)
      if (!chosen.isWorn) return chosen
      end(chosen)
      return take(path)
    }
    if (isolation === undefined) isolation = withoutNetwork()
    const started = startProcess({ ...settings, isolation })
    all.add(started)
    return started
  }

  function giveBack(process: ReaderProcess): void {
    if (isClosed || process.isWorn) {
      end(process)
      return
    }
    const clock = setTimeout(() => {
      idle.delete(process)
      end(process)
    }, idleTime)
    idle.set(process, clock.unref())
  }

  function end(process: ReaderProcess): void {
    void process.stop().then(() => all.delete(process))
  }

  async function run(work: Work, timeout: number, signal?: AbortSignal): Promise<Answer> {
    signal?.throwIfAborted()
    await turn(signal)
    try {
      if (isClosed) throw closed()
      const process = take(work.file.path)
      try {
        const answer = await process.run(work, timeout, signal)
        giveBack(process)
        return answer
      } catch (problem) {
        end(process)
        throw isClosed && problem instanceof ReadFailure ? closed() : problem
      }
    } finally {
      pass()
    }
  }

  async function ask<K extends 'outline' | 'page' | 'thumbnail'>(
    kind: K,
    work: Work,
    timeout: number,
    signal?: AbortSignal,
  ): Promise<Extract<Answer, Record<K, unknown>>[K]> {
    const answer = await run(work, timeout, signal)
    if ('failure' in answer) throw new ReadFailure(answer.failure.code, answer.failure.message, answer.failure.retry)
    return (answer as Extract<Answer, Record<K, unknown>>)[kind]
  }

  return {
    slots,
    outline: (file, { signal } = {}) => ask('outline', { kind: 'outline', file }, limits.outlineTimeout, signal),
    async page(file, page, language, { signal } = {}) {
      if (!ocr) throw new ReadFailure('OCR_FAILED', 'There is no OCR on this machine.')
      const missing = language.split('+').filter((code) => !ocr.languages.has(code))
      if (missing.length > 0) throw new ReadFailure('OCR_LANGUAGE_MISSING', `The OCR language ${missing.join(', ')} is not installed.`)
      return ask('page', { kind: 'page', file, page, language }, limits.pageTimeout, signal)
    },
    thumbnail: (file, box, type, { signal } = {}) =>
      ask('thumbnail', { kind: 'thumbnail', file, box, type }, limits.thumbnailTimeout, signal),
    async close() {
      isClosed = true
      for (const clock of idle.values()) clearTimeout(clock)
      idle.clear()
      for (const next of waiting.splice(0)) {
        working++
        next()
      }
      await Promise.all([...all].map((process) => process.stop()))
    },
  }
}

const closed = (): ReadFailure => new ReadFailure('READ_CRASHED', 'The reader is closed.', true)
