/**
 * Decrypts workbooks with the default password of office programs, which protects against changes only. RC4, RC4 of CryptoAPI and XOR obfuscation as in
 * MS-OFFCRYPTO, sections 2.3.6, 2.3.5 and 2.3.7. MS-XLS, section 2.2.10, lists what stays unencrypted.
 */
import { createHash } from 'node:crypto'
import { ReadFailure } from '../../../../ports/document-reader.ts'
import { defaultPassword, uint32 } from '../encrypted-package.ts'
import { readRecords, recordTypes } from './biff-records.ts'

/** BOF, FilePass, UsrExcl, FileLock, InterfaceHdr, RRDInfo, RRDHead. */
const plainRecords: ReadonlySet<number> = new Set([recordTypes.begin, recordTypes.password, 0x194, 0x195, 0xe1, 0x196, 0x138])
const headerBytes = 4
/** Bytes of a sheet record that state the position of the sheet. */
const positionBytes = 4
/** Bytes of the stream that have a key of their own. */
const blockBytes = 1024

/** Returns a workbook that is readable. Throws ReadFailure FILE_ENCRYPTED if it has another password. */
export function decryptWorkbook(stored: Uint8Array): Uint8Array {
  const info = readRecords(stored).find(({ kind }) => kind === recordTypes.password)?.data
  if (!info) return stored
  const decryptByte = readScheme(Buffer.from(info))
  if (!decryptByte) throw new ReadFailure('FILE_ENCRYPTED')
  const bytes = Uint8Array.from(stored)
  const view = new DataView(bytes.buffer)
  for (let at = 0; at + headerBytes <= bytes.length; ) {
    const kind = view.getUint16(at, true)
    const size = view.getUint16(at + 2, true)
    const start = at + headerBytes
    const end = Math.min(start + size, bytes.length)
    if (!plainRecords.has(kind))
      for (let i = start + (kind === recordTypes.sheet ? positionBytes : 0); i < end; i++) bytes[i] = decryptByte(bytes[i] ?? 0, i, size)
    at = start + size
  }
  return bytes
}

/** Decrypts the byte at a position of the stream. `size` is that of the data of its record. */
type DecryptByte = (byte: number, at: number, size: number) => number

const schemes = { xor: 0, rc4: 1 } as const

/** Returns the decryption by the data of FilePass, null if the password is not the default one. */
function readScheme(info: Buffer): DecryptByte | null {
  try {
    // Excel 95 only knows XOR and does not state it.
    if (info.length === xorInfo.length) return info.equals(xorInfo) ? decryptXor : null
    const scheme = info.readUInt16LE(0)
    if (scheme === schemes.xor) return info.subarray(2).equals(xorInfo) ? decryptXor : null
    if (scheme !== schemes.rc4) return null
    return info.readUInt16LE(4) === 2 ? readCryptoApi(info) : readRc4(info)
  } catch {
    // A damaged description.
    return null
  }
}

const wideDefaultPassword = Buffer.from(defaultPassword, 'utf16le')
const hashOf = (algorithm: 'md5' | 'sha1', ...parts: Uint8Array[]): Buffer => createHash(algorithm).update(Buffer.concat(parts)).digest()

function readRc4(info: Buffer): DecryptByte | null {
  const salt = info.subarray(6, 22)
  const hash = hashOf('md5', wideDefaultPassword).subarray(0, 5)
  const key = hashOf('md5', ...Array.from({ length: 16 }, () => [hash, salt]).flat()).subarray(0, 5)
  const keyOf = (block: number): Buffer => hashOf('md5', key, uint32(block))
  return isVerified(info.subarray(22, 54), 'md5', keyOf(0)) ? decryptBlocks(keyOf) : null
}

function readCryptoApi(info: Buffer): DecryptByte | null {
  const verification = 14 + info.readUInt32LE(10)
  const keyBits = info.readUInt32LE(14 + 16) || 40
  const hash = hashOf('sha1', info.subarray(verification + 4, verification + 20), wideDefaultPassword)
  const keyOf = (block: number): Buffer => {
    const key = hashOf('sha1', hash, uint32(block)).subarray(0, keyBits / 8)
    return keyBits === 40 ? Buffer.concat([key, Buffer.alloc(11)]) : key
  }
  const verifier = info.subarray(verification + 20, verification + 36)
  const verifierHash = info.subarray(verification + 40, verification + 60)
  return isVerified(Buffer.concat([verifier, verifierHash]), 'sha1', keyOf(0)) ? decryptBlocks(keyOf) : null
}

/** Returns whether an encrypted verifier of 16 bytes has the encrypted hash behind it. */
function isVerified(encrypted: Buffer, algorithm: 'md5' | 'sha1', key: Buffer): boolean {
  const stream = rc4Stream(key, encrypted.length)
  const plain = encrypted.map((byte, i) => byte ^ (stream[i] ?? 0))
  return hashOf(algorithm, plain.subarray(0, 16)).equals(plain.subarray(16))
}

function decryptBlocks(keyOf: (block: number) => Buffer): DecryptByte {
  let last = -1
  let stream = new Uint8Array()
  return (byte, at) => {
    const block = Math.floor(at / blockBytes)
    if (block !== last) stream = rc4Stream(keyOf(block), blockBytes)
    last = block
    return byte ^ (stream[at % blockBytes] ?? 0)
  }
}

/** Returns the key stream of RC4. Node cannot be relied on for this old algorithm. */
function rc4Stream(key: Uint8Array, length: number): Uint8Array<ArrayBuffer> {
  const state = Uint8Array.from({ length: 256 }, (_, i) => i)
  const swap = (i: number, j: number): void => {
    const value = state[i]!
    state[i] = state[j]!
    state[j] = value
  }
  for (let i = 0, j = 0; i < 256; i++) {
    j = (j + state[i]! + key[i % key.length]!) & 0xff
    swap(i, j)
  }
  let j = 0
  return Uint8Array.from({ length }, (_, at) => {
    const i = (at + 1) & 0xff
    j = (j + state[i]!) & 0xff
    swap(i, j)
    return state[(state[i]! + state[j]!) & 0xff]!
  })
}

/** Key and verifier of the default password. */
const xorInfo = Buffer.from('59b30a9a', 'hex')
const rotateLeft = (byte: number, bits: number): number => ((byte << bits) | (byte >> (8 - bits))) & 0xff
/** The password, filled up to 16 bytes, with the key. */
const xorArray = Buffer.from(`${defaultPassword}\xbb`, 'latin1').map((byte, i) => rotateLeft(byte ^ xorInfo[i % 2]!, 7))
const decryptXor: DecryptByte = (byte, at, size) => rotateLeft(byte ^ xorArray[(at + size) % 16]!, 3)
