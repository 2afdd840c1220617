/** Watches what a server has: its processes, their memory, and what they leave in folders. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isStillThere, peakMemory, processTree, type TreeProcess } from '../support/processes/process-tree.ts'
import type { Served } from '../support/servers/served.ts'

const interval = 200

export interface Watch {
  /** processes that read files, now */
  readers(): number
  /** the most bytes so far: of the server itself, and of one reading process */
  peaks(): { server: number; reader: number }
  /** Call after the server's stop: every process and file of its that is still there. */
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
      const processes = [...seen.values()].filter(isStillThere).map((process) => `process ${process.pid}: ${process.command}`)
      const folders = [tempDir, join(dataDir, 'tmp', 'reading'), join(dataDir, 'tmp', 'previews'), join(dataDir, 'files', '.tmp')]
      const names = await Promise.all(folders.map(async (folder) => (await namesIn(folder)).map((name) => `file ${join(folder, name)}`)))
      return [...processes, ...names.flat()]
    },
  }
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])
