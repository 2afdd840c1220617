/** How far a word may be from what was typed, and how far it is. */

/** Typos that a word of a query may hold: one from 5 letters on, two from 9; none in numbers and codes. */
export function maxTypos(word: string): 0 | 1 | 2 {
  if (!/^\p{L}+$/u.test(word) || word.length < 5) return 0
  return word.length < 9 ? 1 : 2
}

/** Letters put in, left out, replaced, or swapped with their neighbour; `limit + 1` as soon as it is known to be more than `limit`. */
export function editDistance(one: string, other: string, limit: number): number {
  if (Math.abs(one.length - other.length) > limit) return limit + 1
  let twoAbove: number[] = []
  let above = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let row = 1; row <= one.length; row++) {
    const here = [row]
    let least = row
    for (let column = 1; column <= other.length; column++) {
      const same = one[row - 1] === other[column - 1]
      let cost = Math.min(above[column]! + 1, here[column - 1]! + 1, above[column - 1]! + (same ? 0 : 1))
      const swapped = row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      if (swapped) cost = Math.min(cost, twoAbove[column - 2]! + 1)
      here.push(cost)
      if (cost < least) least = cost
    }
    // A swap reaches over one row, so two rows must be past the limit.
    if (least > limit && Math.min(...above) > limit) return limit + 1
    twoAbove = above
    above = here
  }
  return Math.min(above[other.length]!, limit + 1)
}

/** Pieces of a word one of which every word within its typos has, `beginning` and `ending` where they are called so. */
export interface WordParts {
  readonly beginning: string
  /** null: two are enough */
  readonly middle: string | null
  readonly ending: string
}

/** Between `typos + 1` blocks one letter is left free, so that a typo (two letters at most, in a swap) spoils one block only, and one block is left whole. */
export function wordParts(word: string, typos: 1 | 2): WordParts {
  const solid = word.length - typos
  if (typos === 1) return { beginning: word.slice(0, solid >> 1), middle: null, ending: word.slice(1 + (solid >> 1)) }
  const side = Math.floor((solid - 1) / 3)
  return {
    beginning: word.slice(0, side),
    middle: word.slice(side + 1, word.length - side - 1),
    ending: word.slice(word.length - side),
  }
}
