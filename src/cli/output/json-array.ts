/** Indented JSON, written piece by piece: a string of V8 has at most 512 MB. */

export interface JsonArray {
  add(value: unknown): void
  end(): void
}

/** Starts an array. Its text equals that of JSON.stringify() with two spaces, `indent` spaces deep. */
export function startJsonArray(write: (text: string) => void, indent = 0): JsonArray {
  const margin = ' '.repeat(indent)
  let count = 0
  return {
    add(value) {
      write(`${count === 0 ? '[' : ','}\n${margin}  ${JSON.stringify(value, null, 2).replaceAll('\n', `\n${margin}  `)}`)
      count++
    },
    end: () => write(count === 0 ? '[]' : `\n${margin}]`),
  }
}

/** Writes an object with the array `name` as its last field, and a line break. */
export function writeJsonObject(write: (text: string) => void, fields: object, name: string, values: Iterable<unknown>): void {
  write(`${JSON.stringify(fields, null, 2).replace(/\n\}$/, '')},\n  ${JSON.stringify(name)}: `)
  const array = startJsonArray(write, 2)
  for (const value of values) array.add(value)
  array.end()
  write('\n}\n')
}
