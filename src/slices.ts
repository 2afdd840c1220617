/** Yields the list in slices of `size` elements; the last slice may be shorter. */
export function* slicesOf<T>(list: readonly T[], size: number): Generator<T[]> {
  for (let start = 0; start < list.length; start += size) yield list.slice(start, start + size)
}
