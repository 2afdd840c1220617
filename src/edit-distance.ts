/**
 * Returns the Damerau–Levenshtein distance of two words, as optimal string alignment (Damerau 1964; Wagner and Fischer 1974): insertions, deletions,
 * substitutions and transpositions of adjacent letters. Returns `limit + 1` as soon as the distance exceeds `limit`.
 */
export function editDistance(one: string, other: string, limit: number): number {
  if (Math.abs(one.length - other.length) > limit) return limit + 1
  let beforePrevious: number[] = []
  let previous = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let row = 1; row <= one.length; row++) {
    const current = [row]
    let least = row
    for (let column = 1; column <= other.length; column++) {
      const substitution = one[row - 1] === other[column - 1] ? 0 : 1
      let cost = Math.min(previous[column]! + 1, current[column - 1]! + 1, previous[column - 1]! + substitution)
      const isTransposed = row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      if (isTransposed) cost = Math.min(cost, beforePrevious[column - 2]! + 1)
      current.push(cost)
      if (cost < least) least = cost
    }
    // No later cost is lower: even a transposition costs at least the least of the row that it skips.
    if (least > limit) return limit + 1
    beforePrevious = previous
    previous = current
  }
  return Math.min(previous[other.length]!, limit + 1)
}
