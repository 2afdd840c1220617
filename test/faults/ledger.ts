/** Records the answers that clients received, independently of the program under test. */

export interface StoredUpload {
  readonly sha256: string
  readonly size: number
  /** a word that only this document has, if it can be found by words */
  readonly word: string | null
}

export interface Link {
  readonly token: string
  readonly maxViews: number
  /** views that returned the file, and views with an unknown result */
  delivered: number
  unknown: number
}

export type Ledger = ReturnType<typeof openLedger>

/** Creates an empty ledger. */
export function openLedger() {
  const uploads = new Map<string, StoredUpload>()
  const deleted = new Set<string>()
  const links: Link[] = []
  const answers = new Map<string, number>()
  const problems = new Set<string>()
  /** milliseconds from the first refusal to the next success */
  const outages: number[] = []
  let refusedAt: number | null = null
  let slowest = 0
  return {
    /** uploads that were answered with 201, by document */
    uploads,
    deleted,
    links,
    answers,
    problems,
    outages,
    acknowledged: 0,
    slowest: () => slowest,
    /** Records an answer (`0`: none), and whether the service is available. */
    record(what: string, status: number, milliseconds: number, retryAfter: string | null = null): void {
      answers.set(`${what} ${status || 'no answer'}`, (answers.get(`${what} ${status || 'no answer'}`) ?? 0) + 1)
      slowest = Math.max(slowest, milliseconds)
      if (status === 503 && retryAfter === null) problems.add(`${what}: 503 without Retry-After`)
      if (status >= 500 && status !== 503 && status !== 507) problems.add(`${what}: ${status}`)
      const now = performance.now()
      if (status >= 200 && status < 500) {
        if (refusedAt !== null) outages.push(now - refusedAt)
        refusedAt = null
      } else refusedAt ??= now - milliseconds
    },
  }
}
