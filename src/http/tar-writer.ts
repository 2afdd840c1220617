/**
 * Writes tar archives (ustar). A library is not used because the writer of tar-stream queues chunks whose buffers the backup reuses. Paths are
 * at most 100 bytes by construction.
 */

export const blockSize = 512
/** End of an archive: two empty blocks. */
export const tarEnd = Buffer.alloc(2 * blockSize)

/** Returns the header block of a file. `path` is at most 100 bytes; `modified` is in seconds since 1970. */
export function tarHeader(path: string, size: number, modified: number): Buffer {
  if (Buffer.byteLength(path) > 100) throw new Error(`path is too long for a tar archive: ${path}`)
  const header = Buffer.alloc(blockSize)
  const octal = (value: number, at: number, length: number) => header.write(value.toString(8).padStart(length - 1, '0'), at)
  header.write(path, 0)
  octal(0o600, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  // Eleven octal digits reach 8 GiB. Larger sizes are binary (GNU tar's base-256).
  if (size < 8 ** 11) octal(size, 124, 12)
  else {
    header.writeUInt8(0x80, 124)
    header.writeBigUInt64BE(BigInt(size), 128)
  }
  octal(Math.floor(modified), 136, 12)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\x0000', 257, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}

/** Returns the zeros that fill the last block of a file. */
export const tarPadding = (size: number): Buffer => Buffer.alloc((blockSize - (size % blockSize)) % blockSize)
