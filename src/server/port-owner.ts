/** Finds the process that listens on a port (Linux only). */
import { readdir, readFile, readlink } from 'node:fs/promises'

/** Returns text such as "pid 4242, node", or null if the process is not visible. */
export async function describePortOwner(port: number): Promise<string | null> {
  const sockets = new Set((await Promise.all(['tcp', 'tcp6'].map((family) => listeningSockets(family, port)))).flat())
  if (sockets.size === 0) return null
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  for (const pid of pids) {
    for (const file of await readdir(`/proc/${pid}/fd`).catch(() => [])) {
      if (!sockets.has(await readlink(`/proc/${pid}/fd/${file}`).catch(() => ''))) continue
      const name = (await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')).trim()
      return `pid ${pid}${name ? `, ${name}` : ''}`
    }
  }
  return null
}

/** Returns the listening sockets of a port as link targets in /proc/PID/fd. */
async function listeningSockets(family: string, port: number): Promise<string[]> {
  const table = await readFile(`/proc/net/${family}`, 'utf8').catch(() => '')
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return table
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local = '', , state]) => local.endsWith(end) && state === '0A')
    .map((fields) => `socket:[${fields[9]}]`)
}
