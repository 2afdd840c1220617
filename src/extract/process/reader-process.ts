/** One reader process: started, given work, watched, killed. */
import { type ChildProcess, fork } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import type { Socket } from 'node:net'
import { resolve as absolute, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../log/log.ts'
import { ReadFailure } from '../../ports/document-reader.ts'
import { type Answer, type Setup, timeoutNotice, type Work, type WorkMessage } from './messages.ts'
import { residentMemory } from './process-memory.ts'
import { makeReaderFolder, removeReaderFolder } from './reader-folders.ts'

import { path, permissions, type Rights, withLimits } from './sandbox.ts'

const memoryInterval = 500
/** what a process may do before it is replaced: parsers leak */
const maxWorks = 200
/** and how long it may work in all */
const maxWorkMs = 15 * 60_000
/** Writable memory that Node, its threads and WebAssembly map without touching it: 1.7 GB measured with OCR of a page of 35 megapixels. */
const mappedBytes = 3 * 1024 ** 3
const complaintLength = 4000
const own = fileURLToPath(import.meta.url)
const program = fileURLToPath(new URL(`./child${extname(own)}`, import.meta.url))

export interface ProcessSettings extends Setup {
  readonly tempDir: string
  readonly log: Log
  /** bytes that the process and those it starts may hold */
  readonly memory: number
  /** the longest timeout of one work */
  readonly longestWorkMs: number
  /** what `withoutNetwork()` found */
  readonly isolation: readonly string[] | null
}

export interface ReaderProcess {
  /** The file of the last work: what it opened is still warm. */
  readonly lastPath: string | null
  /** Whether it should do no more work. */
  readonly isWorn: boolean
  /** Does one work. Rejects with ReadFailure, or with the signal's reason; the process is dead then, unless the failure was its answer. */
  run(work: Work, timeout: number, signal?: AbortSignal): Promise<Answer>
  /** Ends the process and all that it started; resolves when nothing of them is left, and never rejects. */
  stop(): Promise<void>
}

/** Starts a process in a group and a folder of its own, with nothing of our environment. */
export function startProcess({ tempDir, log, memory, longestWorkMs, isolation, ...setup }: ProcessSettings): ReaderProcess {
  const folder = makeReaderFolder(tempDir)
  // Garbage collection and compilation have threads beside the main one.
  const cpuSeconds = (2 * (maxWorkMs + longestWorkMs)) / 1000
  const child = forkConfined({ program, rights: rightsFor(setup, folder), memory, cpuSeconds, isolation })
  let lastPath: string | null = null
  let link = ''
  let works = 0
  let workedMs = 0
  let isEnded = false
  let complaint = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-complaintLength)
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
  idle(child)

  const stop = (): Promise<void> => {
    if (!isEnded) {
      busy(child)
      killGroup(child)
    }
    return ended
  }

  /** Puts the file where the process may read it, and nothing that it was handed before; answers where. */
  function handOver(path: string): string {
    if (path === lastPath) return link
    if (link !== '') rmSync(link, { force: true })
    link = join(folder, `file-${works}`)
    symlinkSync(absolute(path), link)
    lastPath = path
    return link
  }

  async function run(work: Work, timeout: number, signal?: AbortSignal): Promise<Answer> {
    works++
    const startMs = performance.now()
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const kill = (reason: unknown): void => {
      reject(reason)
      void stop()
    }
    const onAbort = (): void => kill(signal?.reason)
    const onExit = (): void => reject(crash(complaint))
    const onError = (problem: Error): void => kill(new ReadFailure('READ_CRASHED', `The reader process failed: ${problem.message}`, true))
    const clock = setTimeout(() => kill(new ReadFailure('READ_TIMEOUT')), timeout)
    const watch = setInterval(() => {
      if (residentMemory(child.pid ?? 0) > memory) kill(new ReadFailure('READ_OUT_OF_MEMORY'))
    }, memoryInterval)
    signal?.addEventListener('abort', onAbort, { once: true })
    child.once('message', resolve as (message: unknown) => void)
    // After the last of standard error, which tells why.
    child.once('close', onExit)
    child.once('error', onError)
    busy(child)
    try {
      if (isEnded || !child.connected) throw crash(complaint)
      const message: WorkMessage = { work: { ...work, file: { ...work.file, path: handOver(work.file.path) } }, timeoutMs: timeout }
      child.send(message, (problem) => problem && kill(crash(complaint)))
      return await promise
    } finally {
      workedMs += performance.now() - startMs
      clearTimeout(clock)
      clearInterval(watch)
      signal?.removeEventListener('abort', onAbort)
      child.off('message', resolve)
      child.off('close', onExit)
      child.off('error', onError)
      idle(child)
    }
  }

  return {
    get lastPath() {
      return lastPath
    },
    get isWorn() {
      return isEnded || !child.connected || works >= maxWorks || workedMs >= maxWorkMs || residentMemory(child.pid ?? 0) > (memory * 2) / 3
    },
    run,
    stop,
  }
}

/** Settles when the process is gone; one that could not be started never exits. */
function exitOf(child: ChildProcess): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  child.once('exit', () => resolve())
  child.on('error', () => {
    if (child.pid === undefined) resolve()
  })
  return promise
}

export interface ConfinedProgram {
  /** a module; it finds our pid and `memory` in its arguments */
  readonly program: string
  readonly rights: Rights
  /** bytes that it may hold: the limit of its heap; with what is mapped and never touched, that of its writable memory */
  readonly memory: number
  /** processor time after which the kernel kills it */
  readonly cpuSeconds: number
  readonly isolation: readonly string[] | null
}

/** Starts a program of ours with a channel to it, as the leader of a group, in the folder that it may write to, and with none of our environment. */
export function forkConfined({ program, rights, memory, cpuSeconds, isolation }: ConfinedProgram): ChildProcess {
  const cwd = rights.writable
  const limits = withLimits({ cpuSeconds, dataBytes: memory + mappedBytes })
  const [execPath = '', ...before] = [...(isolation ?? []), ...limits, process.execPath]
  return fork(program, [String(process.pid), String(memory)], {
    cwd,
    detached: true,
    serialization: 'advanced',
    execPath,
    execArgv: [...before, `--max-old-space-size=${Math.ceil(memory / 1024 / 1024)}`, ...permissions(rights)],
    env: { PATH: path, HOME: cwd, TMPDIR: cwd, LC_ALL: 'C.UTF-8', OMP_THREAD_LIMIT: '1', VIPS_CONCURRENCY: '1' },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
}

/** It writes to a folder inside of its own: through a link that it may write to, the file itself could be changed. */
function rightsFor({ ocr }: Setup, folder: string): Rights {
  const writable = join(folder, 'own')
  mkdirSync(writable)
  const models = [...(ocr?.languages.values() ?? [])].map((language) => language.path)
  return { writable, readable: [folder, ...new Set(models)], startsPrograms: ocr?.engine === 'tesseract-native' }
}

/** The process leads a group, so that programs it started end with it. */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (problem) {
    // No such group: all of it is gone.
    if ((problem as NodeJS.ErrnoException).code !== 'ESRCH') throw problem
  }
}

function crash(complaint: string): ReadFailure {
  if (complaint.includes(timeoutNotice)) return new ReadFailure('READ_TIMEOUT')
  if (/out of memory|allocation failed/i.test(complaint)) return new ReadFailure('READ_OUT_OF_MEMORY')
  return new ReadFailure('READ_CRASHED', undefined, true)
}

/** An idle process does not keep ours from ending. */
function idle(child: ChildProcess): void {
  child.unref()
  child.channel?.unref()
  ;(child.stderr as Socket | null)?.unref()
}

/** What is waited for does. */
function busy(child: ChildProcess): void {
  child.ref()
  child.channel?.ref()
  ;(child.stderr as Socket | null)?.ref()
}
