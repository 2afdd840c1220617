import { expect, test } from 'vitest'
import { readTextLines } from '../src/text-lines.ts'

test('lines over any chunks: only a line feed ends one, a character may be divided, the last may have no end', async () => {
  const text = 'a\u2028b\r\n\nüber\nlast'
  for (const size of [1, 2, 3, 100]) {
    const bytes = Buffer.from(text)
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => bytes.subarray(index * size, (index + 1) * size))
    expect(await Array.fromAsync(readTextLines(chunks))).toEqual(['a\u2028b\r', '', 'über', 'last'])
  }
  await expect(Array.fromAsync(readTextLines([Buffer.from('12345')], 4))).rejects.toThrow('more than 4 characters')
})
