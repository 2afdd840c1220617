import { expect, test } from 'vitest'
import { analyze, type Passage } from '../../src/search/engines/postgres/index/document-vector.ts'

/** Cuts a text into passages. */
async function passagesOf(content: string): Promise<Passage[]> {
  const passages: Passage[] = []
  await analyze(
    { title: 'list', label_names: [], filename: 'list.txt', content },
    [],
    () => {},
    async (passage) => void passages.push(passage),
  )
  return passages
}

/** Returns all positions of a tsvector in PostgreSQL's binary format. */
function positions(vector: Buffer): number[] {
  const found: number[] = []
  let at = 4
  for (let lexeme = 0; lexeme < vector.readInt32BE(0); lexeme++) {
    at = vector.indexOf(0, at) + 1
    const count = vector.readUInt16BE(at)
    at += 2
    for (let nth = 0; nth < count; nth++, at += 2) found.push(vector.readUInt16BE(at) & 0x3fff)
  }
  return found
}

test.each([1, 2, 3, 5, 8])('every passage counts its words from 1 where chains of %i numbers cross the cuts', async (length) => {
  const chain = Array.from({ length }, (_, index) => index + 10).join('/')
  const passages = await passagesOf(`45 ${chain} `.repeat(3000))
  expect(passages.length).toBeGreaterThan(1)
  for (const { words } of passages) {
    expect(Math.min(...positions(words))).toBe(1)
  }
})
