/** F21: the server of a source disappears, refuses, stalls or misbehaves during a sync. */
import { type Fault, type FaultContext, type FaultResult, type FaultRun, openFaultRun } from '../fault.ts'
import { createSource } from './synced-source.ts'
import { folderEntry, type Misbehaviour, multistatus, openShare, type Share } from './webdav-share.ts'

/** maximum milliseconds of an answer of a source; no failure of the short form lasts, and a busy machine is slow */
const timeoutMs = { whole: 2000, short: 30_000 }
/** milliseconds within which a sync must end or report the failure */
const mostUntilToldMs = 180_000
const filesEach = 12
/** milliseconds until a sync reports a failing server: five files in a row with up to twelve attempts each, and those in progress */
const mostRequests = 150

const refuse =
  (status: number, headers: Record<string, string> = {}): Misbehaviour =>
  (_, response) => {
    response.writeHead(status, headers).end('no')
    return true
  }

export const failures: Readonly<Record<string, Misbehaviour>> = {
  'connections are cut': (request) => {
    request.socket.destroy()
    return true
  },
  '500': refuse(500),
  '503': refuse(503, { 'retry-after': '1' }),
  '429': refuse(429, { 'retry-after': '1' }),
  '507': refuse(507),
  '401': refuse(401),
  stall: () => true,
  'a byte a second': (_, response) => {
    response.writeHead(200, { 'content-length': '1000' })
    const timer = setInterval(() => response.write('x'), 1000)
    response.on('close', () => clearInterval(timer))
    return true
  },
  'no TLS, no HTTP': (request) => {
    request.socket.end('\u0015\u0003\u0001\u0000\u0002\u0002\u0028')
    return true
  },
  'an empty list': (request, response) => {
    if (request.method === 'GET') return false
    response.writeHead(207, { 'content-type': 'application/xml' }).end(multistatus([folderEntry('/')]))
    return true
  },
  'a list that breaks off': (request, response) => {
    if (request.method === 'GET') return false
    response.writeHead(207, { 'content-type': 'application/xml' }).write(multistatus([folderEntry('/')]).slice(0, -10))
    setTimeout(() => response.destroy(), 50)
    return true
  },
}
const sample = ['connections are cut', '503', '401', 'an empty list']

export const failingSource: Fault = { id: 'F21', name: 'the server of a source fails in the middle of a sync', isLong: true, run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const server = await installation.start({
    env: { DMS_OCR_ENABLED: 'false', DMS_SOURCES_TIMEOUT: `${isShort ? timeoutMs.short : timeoutMs.whole}ms` },
  })
  const faultRun = await openFaultRun(installation)
  const share = await openShare()
  installation.atEnd(() => share.close())
  const names = isShort ? sample : Object.keys(failures)
  const requested: number[] = []
  for (const name of names) requested.push(await failOnce(faultRun, share, name))
  faultRun.notes.push(`at most ${Math.max(...requested)} requests to a server that fails`)
  const result = await faultRun.finish(`${names.length} failures of a server`)
  await server.kill()
  return result
}

/**
 * Runs a normal sync, a sync during which the server begins to misbehave, and a normal one. Returns the requests that the misbehaving server
 * received.
 */
async function failOnce({ caller, expect }: FaultRun, share: Share, name: string): Promise<number> {
  const grow = () => {
    for (let file = 0; file < filesEach; file++) share.files.set(`${share.files.size}.txt`, Buffer.from(`${name} ${share.files.size}`))
  }
  share.misbehave(null)
  share.files.clear()
  grow()
  const source = await createSource(caller, { name, url: share.url }, mostUntilToldMs)
  const isDone = async () => (await source.syncState()).state === 'completed' && (await source.get()).document_count === share.files.size

  await source.start()
  expect(await source.until(isDone), `${name}: the first sync did not end well`)
  grow()
  const before = share.requests()
  share.misbehave(failures[name] ?? null, name.includes('list') ? 0 : 4)
  await source.start()
  const isTold = await source.until(async () => {
    const { state: now, errors } = await source.syncState()
    return (await source.get()).last_error !== null || (now === 'completed' && errors.length > 0)
  })
  expect(isTold, `${name}: neither the source nor its sync says that something is wrong after ${mostUntilToldMs / 1000} s`)
  const requested = share.requests() - before
  expect(requested <= mostRequests, `${name}: ${requested} requests to a server that fails`)
  const { removed } = await source.syncState()
  expect(removed === 0, `${name}: ${removed} files were taken for removed`)
  const { document_count } = await source.get()
  expect(document_count >= filesEach, `${name}: ${filesEach - document_count} documents are gone`)

  share.misbehave(null)
  // Failed files are retried by schedule or on request.
  await source.until(source.isOver)
  if (!(await isDone())) await source.start()
  expect(await source.until(isDone), `${name}: not all files are there once the server is good again`)
  const gone = (await source.documents()).filter(({ metadata }) => 'source_removed_at' in metadata)
  expect(gone.length === 0, `${name}: ${gone.length} documents are marked as removed`)
  return requested
}
