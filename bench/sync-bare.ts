/**
 * Peer of a sync: a loop with undici that lists each folder (Depth 1, parsed by the package `webdav`), and downloads, hashes (SHA-256) and writes
 * each file. It keeps no records, compares nothing, and flushes nothing.
 *
 *   node bench/sync-bare.ts first URL FOLDER CONCURRENCY        lists and downloads everything; the authorization is on standard input
 *   node bench/sync-bare.ts list URL TIMES CONCURRENCY          lists this many times
 *
 * Prints a JSON line for each time: number of files, seconds, and CPU seconds.
 */
import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Pool } from 'undici'
import { parseXML } from 'webdav'

const [what, url = '', argument = '', atOnce = '8'] = process.argv.slice(2)
const root = new URL(url)
const authorization = await text(process.stdin)
const concurrency = Number(atOnce)
const pool = new Pool(root.origin, { connections: concurrency })

interface Entry {
  href: string
  isFolder: boolean
  etag: string | undefined
  size: number
  modifiedAt: number
}

async function list(path: string): Promise<Entry[]> {
  const { body } = await pool.request({
    method: 'PROPFIND' as 'GET',
    path,
    headers: { authorization, depth: '1', 'content-type': 'application/xml' },
    body: '<d:propfind xmlns:d="DAV:"><d:prop><d:resourcetype/><d:getetag/><d:getlastmodified/><d:getcontentlength/></d:prop></d:propfind>',
  })
  const { multistatus } = await parseXML(await body.text())
  const all = multistatus.response.map(({ href, propstat }) => ({
    href,
    isFolder: propstat?.prop.resourcetype?.collection !== undefined,
    etag: propstat?.prop.getetag,
    size: Number(propstat?.prop.getcontentlength),
    modifiedAt: Date.parse(propstat?.prop.getlastmodified ?? ''),
  }))
  return all.filter(({ href }) => href !== path)
}

async function listAll(): Promise<Entry[]> {
  const [found, waiting] = [[] as Entry[], [root.pathname]]
  await some(waiting, async (path) => {
    for (const entry of await list(path)) {
      if (entry.isFolder) waiting.push(entry.href)
      else found.push(entry)
    }
  })
  return found
}

async function get({ href }: Entry): Promise<void> {
  const { body } = await pool.request({ method: 'GET', path: href, headers: { authorization } })
  const bytes = Buffer.from(await body.arrayBuffer())
  createHash('sha256').update(bytes).digest('hex')
  const to = join(argument, decodeURIComponent(href))
  await mkdir(dirname(to), { recursive: true })
  await writeFile(to, bytes)
}

/** Works through a list that may grow meanwhile. */
async function some<T>(items: T[], work: (item: T) => Promise<void>): Promise<void> {
  let running = 0
  await new Promise<void>((resolve, reject) => {
    const next = () => {
      while (running < concurrency && items.length > 0) {
        running++
        work(items.pop() as T).then(() => {
          running--
          next()
        }, reject)
      }
      if (running === 0 && items.length === 0) resolve()
    }
    next()
  })
}

for (let time = 0; time < (what === 'list' ? Number(argument) : 1); time++) {
  const [began, used] = [performance.now(), process.cpuUsage()]
  const entries = await listAll()
  const files = entries.length
  if (what === 'first') await some(entries, get)
  const { user, system } = process.cpuUsage(used)
  console.log(JSON.stringify({ files, seconds: (performance.now() - began) / 1000, cpu: (user + system) / 1e6 }))
}
await pool.close()
