/** Records of .xls encrypted as in MS-OFFCRYPTO. */
import { createHash } from 'node:crypto'
import { biff } from './sheet-files.ts'

const salt = Buffer.from('e8772c1d91c56a37964761b280183217', 'hex')
const verifier = Buffer.alloc(16, 9)
const block = 1024
const wide = (text: string): Buffer => Buffer.from(text, 'utf16le')
const digest = (algorithm: string, ...parts: Uint8Array[]): Buffer => createHash(algorithm).update(Buffer.concat(parts)).digest()
const uint = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer)

/** RC4, the same in both directions. */
export function rc4(key: Uint8Array, bytes: Uint8Array): Buffer {
  const s = [...Array(256).keys()]
  const exchange = (a: number, b: number) => {
    ;[s[a], s[b]] = [s[b]!, s[a]!]
  }
  s.reduce((j, _, i) => {
    const next = (j + s[i]! + key[i % key.length]!) % 256
    exchange(i, next)
    return next
  }, 0)
  let [i, j] = [0, 0]
  return Buffer.from(bytes).map((byte) => {
    i = (i + 1) % 256
    j = (j + s[i]!) % 256
    exchange(i, j)
    return byte ^ s[(s[i]! + s[j]!) % 256]!
  }) as Buffer
}

/** Encrypts everything but headers, the records 0x809, 0x2f and 0xe1, and the position in 0x85. `seal` encrypts a whole stream. */
function sealRecords(records: readonly Buffer[], seal: (stream: Buffer) => Buffer): Buffer {
  const stream = Buffer.concat(records)
  const sealed = seal(stream)
  let at = 0
  for (const record of records) {
    const kind = record.readUInt16LE(0)
    const plain = [0x809, 0x2f, 0xe1].includes(kind) ? record.length : kind === 0x85 ? 8 : 4
    stream.copy(sealed, at, at, at + plain)
    at += record.length
  }
  return sealed
}

const sealBlocks =
  (keyOf: (number: number) => Buffer) =>
  (stream: Buffer): Buffer =>
    Buffer.concat(
      Array.from({ length: Math.ceil(stream.length / block) }, (_, i) => rc4(keyOf(i), stream.subarray(i * block, (i + 1) * block))),
    )

/** Encrypts a workbook, as Excel 97 does. `records` begin with the BOF of the workbook. */
export function rc4Workbook([begin, ...records]: readonly Buffer[], password: string): Buffer {
  const start = digest('md5', wide(password)).subarray(0, 5)
  const middle = digest('md5', Buffer.concat(Array(16).fill(Buffer.concat([start, salt])))).subarray(0, 5)
  const keyOf = (number: number): Buffer => digest('md5', middle, uint(number))
  const verification = rc4(keyOf(0), Buffer.concat([verifier, digest('md5', verifier)]))
  const info = biff(0x2f, { u16: 1 }, { u16: 1 }, { u16: 1 }, ...salt, ...verification)
  return sealRecords([begin!, info, ...records], sealBlocks(keyOf))
}

/** Encrypts a workbook, as Excel 2002 and 2003 do with CryptoAPI. */
export function cryptoApiWorkbook([begin, ...records]: readonly Buffer[], password: string, keyBits: number): Buffer {
  const start = digest('sha1', salt, wide(password))
  const keyOf = (number: number): Buffer => {
    const key = digest('sha1', start, uint(number)).subarray(0, keyBits / 8)
    return keyBits === 40 ? Buffer.concat([key, Buffer.alloc(11)]) : key
  }
  const verification = rc4(keyOf(0), Buffer.concat([verifier, digest('sha1', verifier)]))
  const header = Buffer.concat([4, 0, 0x6801, 0x8004, keyBits, 1, 0, 0].map(uint).concat(wide('provider\0')))
  const tail = Buffer.concat([uint(16), salt, verification.subarray(0, 16), uint(20), verification.subarray(16)])
  const info = biff(0x2f, { u16: 1 }, { u16: 2 }, { u16: 2 }, { u32: 4 }, { u32: header.length }, ...header, ...tail)
  return sealRecords([begin!, info, ...records], sealBlocks(keyOf))
}

/** The 16 bytes of XOR obfuscation for VelvetSweatshop. */
const xorArray = Buffer.from('876b9ae21ee305621e699660986e9404', 'hex')

/** Obfuscates a workbook with the default password. */
export function xorWorkbook([begin, ...further]: readonly Buffer[]): Buffer {
  const records = [begin!, biff(0x2f, { u16: 0 }, { u16: 0xb359 }, { u16: 0x9a0a }), ...further]
  let start = 0
  const sealed = records.map((record) => {
    const sizeAndStart = record.length - 4 + start
    start += record.length
    return record.map((byte, i) => (((byte << 5) | (byte >> 3)) & 0xff) ^ xorArray[(sizeAndStart + i) % 16]!)
  })
  return sealRecords(records, () => Buffer.concat(sealed))
}
