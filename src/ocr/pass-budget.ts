/** Time of a page for passes after the first. */

export interface PassBudget {
  /** Returns the milliseconds that are left. */
  leftMs(): number
  /** Returns whether `ms` are left. If not, the pass is left out. */
  hasTimeFor(ms: number): boolean
  /** Whether a pass was left out. */
  readonly isExceeded: boolean
}

/** Opens the budget of a page. `leftMs` returns the rest of its time limit; default: no limit. */
export function openPassBudget(leftMs: () => number = () => Number.MAX_SAFE_INTEGER): PassBudget {
  let isExceeded = false
  return {
    leftMs,
    hasTimeFor(ms) {
      const hasTime = ms < leftMs()
      if (!hasTime) isExceeded = true
      return hasTime
    },
    get isExceeded() {
      return isExceeded
    },
  }
}
