/** A client that records every answer. It uses fetch() and not the client of dms. */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { password } from './installation.ts'
import type { Ledger } from './ledger.ts'

/** a word in every uploaded text */
export const commonWord = 'quartzledger'

export interface Answer {
  /** 0: no answer */
  status: number
  body: Buffer
  headers: Headers
  seconds: number
}

export type Caller = Awaited<ReturnType<typeof openCaller>>

export interface CallerOptions {
  /** milliseconds after which a request without an answer has failed */
  timeoutMs?: number
  /** user with the password of the first admin; default: the first admin */
  username?: string
  /** used instead of a sign-in */
  apiToken?: string
}

/** Signs in and sends requests as this user. */
export async function openCaller(
  url: string,
  ledger: Ledger,
  { timeoutMs = 60_000, username = 'admin', apiToken = '' }: CallerOptions = {},
) {
  let token = apiToken

  const call = async (
    method: string,
    path: string,
    { what = `${method} ${path}`, headers = {}, timeoutMs: answerTimeoutMs = timeoutMs, ...init }: CallInit = {},
  ) => {
    const startedAt = performance.now()
    const timeout = AbortSignal.timeout(answerTimeoutMs)
    const answer: Answer = { status: 0, body: Buffer.alloc(0), headers: new Headers(), seconds: 0 }
    try {
      const response = await fetch(new URL(path, url), {
        method,
        ...init,
        headers: { ...(token === '' ? {} : { authorization: `Bearer ${token}` }), ...headers },
        signal: timeout,
      })
      answer.headers = response.headers
      answer.status = response.status
      answer.body = Buffer.from(await response.arrayBuffer())
    } catch {
      answer.status = 0
      if (timeout.aborted) ledger.problems.add(`${what}: no end within ${answerTimeoutMs / 1000} s`)
    }
    answer.seconds = (performance.now() - startedAt) / 1000
    ledger.record(what, answer.status, performance.now() - startedAt, answer.headers.get('retry-after'))
    return answer
  }

  const json = (body: unknown) => ({ body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })
  const signIn = async () => {
    const { status, body } = await call('POST', '/api/auth/login', { what: 'sign in', ...json({ username, password }) })
    if (status !== 200) throw new Error(`sign in: ${status} ${body}`)
    token = (JSON.parse(body.toString()) as { token: string }).token
  }
  if (apiToken === '') await signIn()

  /** Uploads bytes with a new Idempotency-Key. Records an acknowledged upload. */
  const upload = async (bytes: Buffer, name: string, { key = randomUUID() as string, word = null as string | null, fields = {} } = {}) => {
    const form = new FormData()
    for (const [field, value] of Object.entries(fields)) form.set(field, value as string)
    form.set('file', new Blob([bytes as BlobPart]), name)
    const answer = await call('POST', '/api/documents/upload', { what: 'upload', body: form, headers: { 'idempotency-key': key } })
    if (answer.status !== 201) return { ...answer, id: null, key }
    const { id } = JSON.parse(answer.body.toString()) as { id: string }
    ledger.acknowledged++
    ledger.uploads.set(id, { sha256: sha256Of(bytes), size: bytes.length, word })
    return { ...answer, id, key }
  }

  return {
    call,
    json,
    signIn,
    upload,
    token: () => token,
    /** Returns a text with a unique word. */
    uploadText: (key: string = randomUUID(), fields: Record<string, string> = {}) => {
      const word = `w${randomBytes(8).toString('hex')}`
      return upload(Buffer.from(`${commonWord} ${word} ${'and so on '.repeat(20)}`), `${word}.txt`, { key, word, fields })
    },
    /** Returns bytes of no known type. */
    uploadBytes: (size: number) => upload(randomBytes(size), `${randomUUID()}.bin`),
    /** Purges a document. Repeats a refused request until `timeoutMs` have passed. */
    async purge(id: string): Promise<void> {
      ledger.deleted.add(id)
      for (const end = performance.now() + timeoutMs; ; await sleep(500)) {
        const { status } = await call('DELETE', `/api/documents/${id}?permanent=true`, { what: 'purge' })
        if (status === 204 || status === 404) return
        if (performance.now() > end) return void ledger.problems.add(`the purge of ${id} is answered with ${status}`)
      }
    },
    list: () => call('GET', '/api/documents?per_page=5', { what: 'list' }),
    search: () => call('GET', `/api/search?q=${commonWord}&per_page=5`, { what: 'search' }),
    download: (id: string) => call('GET', `/api/documents/${id}/download`, { what: 'download' }),
    async share(documentId: string, maxViews: number): Promise<void> {
      const answer = await call('POST', '/api/shared-links', { what: 'share', ...json({ document_id: documentId, max_views: maxViews }) })
      if (answer.status !== 201) return
      const { token: link } = JSON.parse(answer.body.toString()) as { token: string }
      ledger.links.push({ token: link, maxViews, delivered: 0, unknown: 0 })
    },
    async visit(): Promise<void> {
      const link = ledger.links[Math.floor(Math.random() * ledger.links.length)]
      if (!link) return
      const { status } = await call('POST', `/api/public/shared/${link.token}/download`, { what: 'visit', ...json({}) })
      if (status === 200) link.delivered++
      else if (status === 0 || status === 503) link.unknown++
    },
  }
}

interface CallInit extends Omit<RequestInit, 'headers' | 'method'> {
  what?: string
  headers?: Record<string, string>
  /** milliseconds after which the request has failed */
  timeoutMs?: number
}

export const sha256Of = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** Sends requests of all kinds until `signal` aborts, `concurrency` at a time. `size`: bytes of the largest upload. */
export async function mixedLoad(caller: Caller, ledger: Ledger, { signal, concurrency = 8, size = 3_000_000 }: LoadOptions): Promise<void> {
  const sendRequests = async () => {
    while (!signal.aborted) {
      const known = [...ledger.uploads.keys()]
      const one = known[Math.floor(Math.random() * known.length)]
      const dice = Math.random()
      const startedAt = performance.now()
      if (dice < 0.35 || !one) await caller.uploadText()
      else if (dice < 0.4) await caller.uploadBytes(size)
      else if (dice < 0.55) await caller.download(one)
      else if (dice < 0.7) await caller.search()
      else if (dice < 0.75) await caller.share(one, 5)
      else if (dice < 0.85) await caller.visit()
      else await caller.list()
      // Waits after an immediate refusal, and leaves processor time to other processes.
      await new Promise((resolve) => setTimeout(resolve, performance.now() - startedAt < 5 ? 50 : 20))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, sendRequests))
}

interface LoadOptions {
  signal: AbortSignal
  concurrency?: number
  size?: number
}
