/** The ICC profile of sRGB (IEC 61966-2-1), version 4.3: matrix and parametric curve. ICC.1:2010 describes the format. */

const headerBytes = 128
/** XYZ of the D50 white point and of the sRGB primaries, adapted to it by the Bradford transform. */
const white = [0.9642, 1, 0.8249]
const primaries = { rXYZ: [0.43607, 0.22249, 0.01392], gXYZ: [0.38515, 0.71687, 0.09708], bXYZ: [0.14307, 0.06061, 0.7141] }
/** Parameters g, a, b, c, d of the curve Y = (aX + b)^g for X ≥ d, else cX. */
const curve = [2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045]
/** The Bradford matrix from D65 to D50. */
const adaptation = [1.04788, 0.02292, -0.0502, 0.02958, 0.99048, -0.01707, -0.00925, 0.01508, 0.75168]

/** Returns the profile. */
export function srgbProfile(): Uint8Array {
  const curveTag = tag('para', Buffer.from([0, 3, 0, 0]), fixed(curve))
  const tags: [string, Buffer][] = [
    ['desc', text('sRGB')],
    ['cprt', text('No copyright, use freely')],
    ['wtpt', tag('XYZ ', fixed(white))],
    ...Object.entries(primaries).map(([name, value]): [string, Buffer] => [name, tag('XYZ ', fixed(value))]),
    ['chad', tag('sf32', fixed(adaptation))],
    ['rTRC', curveTag],
    ['gTRC', curveTag],
    ['bTRC', curveTag],
  ]
  const table = Buffer.alloc(4 + tags.length * 12)
  table.writeUInt32BE(tags.length, 0)
  const offsets = new Map<Buffer, number>()
  const bodies: Buffer[] = []
  let offset = headerBytes + table.length
  for (const [i, [name, body]] of tags.entries()) {
    if (!offsets.has(body)) {
      offsets.set(body, offset)
      bodies.push(Buffer.concat([body, Buffer.alloc(-body.length & 3)]))
      offset += bodies.at(-1)!.length
    }
    table.write(name, 4 + i * 12, 'latin1')
    table.writeUInt32BE(offsets.get(body)!, 8 + i * 12)
    table.writeUInt32BE(body.length, 12 + i * 12)
  }
  return new Uint8Array(Buffer.concat([header(offset), table, ...bodies]))
}

function header(size: number): Buffer {
  const bytes = Buffer.alloc(headerBytes)
  bytes.writeUInt32BE(size, 0)
  bytes.writeUInt32BE(0x04300000, 8)
  bytes.write('mntrRGB XYZ ', 12, 'latin1')
  // The date of the format's edition: the same bytes in every file.
  for (const [i, value] of [2010, 12, 1, 0, 0, 0].entries()) bytes.writeUInt16BE(value, 24 + i * 2)
  bytes.write('acsp', 36, 'latin1')
  fixed(white).copy(bytes, 68)
  return bytes
}

const tag = (type: string, ...parts: Buffer[]): Buffer => Buffer.concat([Buffer.from(type, 'latin1'), Buffer.alloc(4), ...parts])

/** Numbers as s15Fixed16. */
function fixed(numbers: readonly number[]): Buffer {
  const bytes = Buffer.alloc(numbers.length * 4)
  for (const [i, number] of numbers.entries()) bytes.writeInt32BE(Math.round(number * 65536), i * 4)
  return bytes
}

/** A multiLocalizedUnicode tag with one English string. */
function text(value: string): Buffer {
  const utf16 = Buffer.from(value, 'utf16le').swap16()
  const numbers = Buffer.alloc(20)
  for (const [i, number] of [1, 12].entries()) numbers.writeUInt32BE(number, i * 4)
  numbers.write('enUS', 8, 'latin1')
  numbers.writeUInt32BE(utf16.length, 12)
  numbers.writeUInt32BE(28, 16)
  return tag('mluc', numbers, utf16)
}
