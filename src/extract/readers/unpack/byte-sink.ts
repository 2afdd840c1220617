/** Collects unpacked bytes, up to a maximum. */
export function createByteSink(maxBytes: number) {
  let buffer = new Uint8Array(Math.min(maxBytes, 64 * 1024))
  let size = 0
  const reserve = (count: number): void => {
    if (size + count > maxBytes) throw new RangeError(`more than ${maxBytes} bytes`)
    if (size + count <= buffer.length) return
    const larger = new Uint8Array(Math.min(maxBytes, Math.max(size + count, 2 * buffer.length)))
    larger.set(buffer.subarray(0, size))
    buffer = larger
  }
  return {
    /** Throws RangeError above the maximum. */
    add(bytes: Uint8Array): void {
      reserve(bytes.length)
      buffer.set(bytes, size)
      size += bytes.length
    },
    /** Repeats the `length` bytes that begin `distance` before the end. They may overlap the new bytes. Returns false if fewer bytes exist. */
    repeat(distance: number, length: number): boolean {
      if (distance === 0 || distance > size) return false
      reserve(length)
      for (let i = 0; i < length; i++, size++) buffer[size] = buffer[size - distance]!
      return true
    },
    bytes: (): Uint8Array => buffer.subarray(0, size),
  }
}
