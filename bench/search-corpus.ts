/** Documents for bench/search.ts: any number, equal in each run, with a natural distribution of words. */

/** Returns a seeded random number generator, 0 to 1. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

export interface Made {
  readonly title: string
  readonly filename: string
  readonly content: string
  readonly mimeType: string
  /** numbers of owners and labels, from 0 */
  readonly owner: number
  readonly labels: readonly number[]
  readonly createdAt: Date
}

export const owners = 200
export const labels = 200
const vocabulary = 300_000
const expressions = 150_000
const span = 5 * 365 * 86_400_000
const firstDay = Date.UTC(2021, 0, 1)
/** The mean of exp(3x) for x from 0 to 1. */
const meanGrowth = (Math.exp(3) - 1) / 3

const small =
  'the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were all her she there would their we him been has when who will no more if out so up said what its about than into them can only other time new some could these two may first then do any like my now over such our'
const onsets = ['b', 'br', 'c', 'ch', 'cl', 'd', 'dr', 'f', 'fl', 'g', 'gr', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'pl', 'pr', 'qu', 'r', 's']
const more = ['sc', 'sh', 'st', 'str', 't', 'th', 'tr', 'v', 'w', '']
const vowels = ['a', 'e', 'i', 'o', 'u', 'ea', 'io', 'ou']
const codas = ['', '', 'n', 'r', 's', 't', 'l', 'm', 'nd', 'nt', 'ck', 'rt']
const endings = ['', '', '', 's', 'ed', 'ing', 'er', 'tion', 'al', 'ly', 'ment']

/** Words by frequency, the most frequent first. */
export function makeWords(): string[] {
  const random = seeded(1)
  const pick = (list: readonly string[]) => list[Math.floor(random() * list.length)] ?? ''
  const known = new Set(small.split(' '))
  while (known.size < vocabulary) {
    const syllables = 1 + Math.floor(random() * 3) + (known.size > 20_000 ? 1 : 0)
    let word = ''
    for (let count = 0; count < syllables; count++) word += pick(random() < 0.7 ? onsets : more) + pick(vowels) + pick(codas)
    known.add(word + pick(endings))
  }
  return [...known]
}

/** Draws a rank by Zipf's law. */
function zipf(count: number, exponent: number, shift: number, random: () => number): () => number {
  const sums = new Float64Array(count)
  let sum = 0
  for (let rank = 0; rank < count; rank++) {
    sum += 1 / (rank + 1 + shift) ** exponent
    sums[rank] = sum
  }
  return () => {
    const target = random() * sum
    let [low, high] = [0, count - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sums[middle] ?? 0) < target) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** with the cumulative share of this type */
const types = [
  ['application/pdf', 60, 'pdf'],
  ['image/jpeg', 72, 'jpg'],
  ['image/png', 78, 'png'],
  ['application/vnd.openxmlformats-officedocument.wordprocessingml.document', 87, 'docx'],
  ['text/plain', 93, 'txt'],
  ['message/rfc822', 97, 'eml'],
  ['text/html', 99, 'html'],
  ['image/tiff', 100, 'tif'],
] as const

/**
 * Yields documents of `meanWords` words, from a sixth to three times as many, the oldest first, over five years. A third of the words are in expressions
 * shared with other documents.
 */
export function* makeDocuments(count: number, words: readonly string[], meanWords: number): Generator<Made> {
  const random = seeded(2)
  const word = zipf(words.length, 1.05, 2.7, random)
  const wordAt = (rank: number) => words[rank] ?? ''
  const said = Array.from({ length: expressions }, () =>
    Array.from({ length: 2 + Math.floor(random() * 3) }, () => wordAt(word())).join(' '),
  )
  const expression = zipf(said.length, 0.9, 10, random)
  const owner = zipf(owners, 0.8, 1, random)
  const label = zipf(labels, 0.9, 2, random)
  for (let number = 0; number < count; number++) {
    const length = Math.round((meanWords / meanGrowth) * Math.exp(3 * random()))
    const parts: string[] = []
    for (let left = length; left > 0; ) {
      const part = random() < 0.15 ? (said[expression()] ?? '') : wordAt(word())
      parts.push(part)
      left -= part.includes(' ') ? 3 : 1
      if (random() < 0.08) parts.push(random() < 0.5 ? `${Math.floor(random() * 10_000)}.` : '\n')
    }
    const draw = random() * 100
    const [mimeType, , extension] = types.find(([, upTo]) => draw < upTo) ?? types[0]
    const title = [said[expression()], wordAt(word()), wordAt(word())].join(' ')
    yield {
      title,
      filename: `${title.split(' ').slice(0, 2).join('_')}-${number}.${extension}`,
      content: parts.join(' '),
      mimeType,
      owner: owner(),
      labels: [...new Set(Array.from({ length: Math.floor(random() * 4) }, label))],
      createdAt: new Date(firstDay + Math.floor((number / count) * span)),
    }
  }
}
