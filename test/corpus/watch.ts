/** Watches the processes of a server, their memory, and leftover files. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isStillThere, peakMemory, processTree, type TreeProcess } from '../support/processes/process-tree.ts'
import type { Served } from '../support/servers/served.ts'

const interval = 200
/** milliseconds until the children of a stopped server have ended, on a busy machine */
const endTimeoutMs = 30_000

export interface Watch {
  /** current number of reader processes */
  readers(): number
  /** maximum memory in bytes so far: of the server process, and of one reader process */
  peaks(): { server: number; reader: number }
  /** Returns the processes and files of the server that are left after its stop. */
  leftovers(): Promise<string[]>
}

/** Watches until `leftovers` is called. */
export function watch({ pid, dataDir, tempDir }: Served): Watch {
  const seen = new Map<string, TreeProcess>()
  let reader = 0
  let server = 0
  const isReader = ({ command }: TreeProcess) => /(process|dist)[\\/]child\.[jt]s/.test(command)
  const look = () => {
    const tree = processTree(pid)
    server = Math.max(server, peakMemory(pid))
    for (const process of tree) {
      seen.set(`${process.pid} ${process.startedAt}`, process)
      if (isReader(process)) reader = Math.max(reader, process.resident)
    }
    return tree
  }
  const clock = setInterval(look, interval)
  return {
    readers: () => look().filter(isReader).length,
    peaks: () => ({ server, reader }),
    async leftovers() {
      clearInterval(clock)
      for (const end = performance.now() + endTimeoutMs; [...seen.values()].some(isStillThere) && performance.now() < end; )
        await sleep(100)
      const processes = [...seen.values()].filter(isStillThere).map((process) => `process ${process.pid}: ${process.command}`)
      const folders = [tempDir, join(dataDir, 'tmp', 'reading'), join(dataDir, 'tmp', 'previews'), join(dataDir, 'files', '.tmp')]
      const names = await Promise.all(folders.map(async (folder) => (await namesIn(folder)).map((name) => `file ${join(folder, name)}`)))
      return [...processes, ...names.flat()]
    },
  }
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])
