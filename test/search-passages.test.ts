import { expect, test } from 'vitest'
import { type Passage, read } from '../src/search/engines/postgres-vector.ts'

/** Cuts a text into passages. */
async function passagesOf(content: string): Promise<Passage[]> {
  const passages: Passage[] = []
  await read(
    { title: 'list', labels: [], filename: 'list.txt', content },
    [],
    { word() {}, newWord() {}, endField() {} },
    async (passage) => void passages.push(passage),
  )
  return passages
}

test.each([1, 2, 3, 5, 8])('every passage counts its words from 1 where chains of %i numbers lie across the cuts', async (length) => {
  const chain = Array.from({ length }, (_, index) => index + 10).join('/')
  const passages = await passagesOf(`45 ${chain} `.repeat(3000))
  expect(passages.length).toBeGreaterThan(1)
  for (const { words } of passages) {
    const positions = [...words.matchAll(/[:,](-?\d+)/g)].map(([, position]) => Number(position))
    expect(Math.min(...positions)).toBe(1)
  }
})
