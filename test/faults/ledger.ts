/** What clients were told: the only truth that the program under test cannot have got wrong. */

export interface Kept {
  readonly sha256: string
  readonly size: number
  /** a word that only this document has, where it can be found by words */
  readonly word: string | null
}

export interface Link {
  readonly token: string
  readonly maxViews: number
  /** visits that were answered with the file, and those of which nobody knows */
  given: number
  unknown: number
}

export type Ledger = ReturnType<typeof openLedger>

/** An empty one. */
export function openLedger() {
  const uploads = new Map<string, Kept>()
  const deleted = new Set<string>()
  const links: Link[] = []
  const answers = new Map<string, number>()
  const problems = new Set<string>()
  /** milliseconds from the first refusal to the next success */
  const outages: number[] = []
  let refusedAt: number | null = null
  let slowest = 0
  return {
    /** by document: uploads that were answered with 201 */
    uploads,
    deleted,
    links,
    answers,
    problems,
    outages,
    acknowledged: 0,
    slowest: () => slowest,
    /** Notes an answer (`0`: none came) and what it says about the service. */
    note(what: string, status: number, milliseconds: number, retryAfter: string | null = null): void {
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
