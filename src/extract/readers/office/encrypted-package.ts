/**
 * Decrypts Open XML packages with the default password of office programs. Files protected against changes have it. Agile and standard encryption as
 * in MS-OFFCRYPTO, sections 2.3.4.10 to 2.3.4.15 and 2.3.4.5 to 2.3.4.9.
 */
import { createDecipheriv, createHash } from 'node:crypto'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { decodeXml, walkXml } from '../markup.ts'
import type { Ole } from './ole.ts'

/** Default password of office programs. */
export const defaultPassword = 'VelvetSweatshop'
const password = Buffer.from(defaultPassword, 'utf16le')
/** Rounds of the key derivation. Programs use 50,000 to 100,000; more would only cost time. */
const maxRounds = 1_000_000
const standardRounds = 50_000
const segmentBytes = 4096
const blockKeys = {
  verifier: Buffer.from('fea7d2763b4b9e79', 'hex'),
  verifierHash: Buffer.from('d7aa0f6d3061344e', 'hex'),
  key: Buffer.from('146e0be7abacd0d6', 'hex'),
}

/** Returns the package in a compound file, null if there is none. Throws ReadFailure FILE_ENCRYPTED if it has another password. */
export function decryptPackage(ole: Ole): Uint8Array<ArrayBuffer> | null {
  const content = ole.stream('EncryptedPackage')
  if (!content) return null
  const decrypt = readScheme(Buffer.from(ole.stream('EncryptionInfo') ?? []))
  if (!decrypt || content.length < 8) throw new ReadFailure('FILE_ENCRYPTED')
  const size = Number(Buffer.from(content.subarray(0, 8)).readBigUInt64LE())
  const whole = content.subarray(8, 8 + Math.floor((content.length - 8) / 16) * 16)
  return new Uint8Array(decrypt(whole).subarray(0, size))
}

type Decrypt = (content: Uint8Array) => Buffer

/** Returns the decryption of a package whose password is the default one, else null. */
function readScheme(info: Buffer): Decrypt | null {
  try {
    return info.readUInt16LE(0) === 4 && info.readUInt16LE(2) === 4 ? readAgile(info.subarray(8)) : readStandard(info)
  } catch {
    // An unknown algorithm, or a damaged description.
    return null
  }
}

function readAgile(xml: Buffer): Decrypt | null {
  const found = new Map<string, Record<string, string>>()
  walkXml(decodeXml(xml), { open: (name, attributes) => void found.set(name.replace(/^\w+:/, ''), attributes) })
  const [data, encryptor] = [found.get('keyData'), found.get('encryptedKey')]
  if (!data || !encryptor || Number(encryptor.spinCount) > maxRounds) return null
  const field = (name: string): Buffer => Buffer.from(encryptor[name] ?? '', 'base64')
  const hash = hashOf(encryptor.hashAlgorithm)
  const derived = deriveHash(hash, field('saltValue'), Number(encryptor.spinCount))
  const open = (name: string, blockKey: Buffer): Buffer => {
    const key = resize(hash(derived, blockKey), Number(encryptor.keyBits) / 8)
    return decipher(cipherOf(encryptor, 'cbc'), key, resize(field('saltValue'), Number(encryptor.blockSize)), field(name))
  }
  const verifier = hash(open('encryptedVerifierHashInput', blockKeys.verifier))
  if (!open('encryptedVerifierHashValue', blockKeys.verifierHash).subarray(0, verifier.length).equals(verifier)) return null
  const key = open('encryptedKeyValue', blockKeys.key).subarray(0, Number(data.keyBits) / 8)
  const dataHash = hashOf(data.hashAlgorithm)
  // Fails here for an unknown algorithm.
  dataHash()
  const salt = Buffer.from(data.saltValue ?? '', 'base64')
  return (content) => {
    const segments: Buffer[] = []
    for (let at = 0; at < content.length; at += segmentBytes) {
      const vector = resize(dataHash(salt, uint32(at / segmentBytes)), Number(data.blockSize))
      segments.push(decipher(cipherOf(data, 'cbc'), key, vector, content.subarray(at, at + segmentBytes)))
    }
    return Buffer.concat(segments)
  }
}

function readStandard(info: Buffer): Decrypt | null {
  const headerSize = info.readUInt32LE(8)
  const keyBytes = info.readUInt32LE(12 + 16) / 8
  const verifier = info.subarray(12 + headerSize)
  const hash = hashOf('SHA1')
  const derived = hash(deriveHash(hash, verifier.subarray(4, 20), standardRounds), uint32(0))
  const key = Buffer.concat([0x36, 0x5c].map((pad) => hash(Buffer.alloc(64, pad).map((byte, at) => byte ^ (derived[at] ?? 0))))).subarray(
    0,
    keyBytes,
  )
  const open: Decrypt = (content) => decipher(`aes-${keyBytes * 8}-ecb`, key, null, content)
  const expected = hash(open(verifier.subarray(20, 36)))
  return open(verifier.subarray(40, 72)).subarray(0, expected.length).equals(expected) ? open : null
}

type Hash = (...parts: Uint8Array[]) => Buffer

const hashOf =
  (algorithm = ''): Hash =>
  (...parts) => {
    const state = createHash(algorithm.toLowerCase().replace('-', ''))
    for (const part of parts) state.update(part)
    return state.digest()
  }

function deriveHash(hash: Hash, salt: Buffer, rounds: number): Buffer {
  let state = hash(salt, password)
  for (let round = 0; round < rounds; round++) state = hash(uint32(round), state)
  return state
}

const cipherOf = ({ keyBits }: Record<string, string>, mode: string): string => `aes-${keyBits}-${mode}`

/** Cuts to a length, or pads with 0x36. */
const resize = (bytes: Buffer, length: number): Buffer =>
  bytes.length >= length ? bytes.subarray(0, length) : Buffer.concat([bytes, Buffer.alloc(length - bytes.length, 0x36)])

/** Returns the bytes of a number, the lowest first. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function decipher(algorithm: string, key: Buffer, vector: Buffer | null, content: Uint8Array): Buffer {
  const state = createDecipheriv(algorithm, key, vector).setAutoPadding(false)
  return Buffer.concat([state.update(content), state.final()])
}
