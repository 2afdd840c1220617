/** Open XML packages encrypted as in MS-OFFCRYPTO. */
import { createCipheriv, createHash } from 'node:crypto'
import { ole } from './files.ts'

const salt = Buffer.from('00112233445566778899aabbccddeeff', 'hex')
const rounds = 50_000
const wide = (text: string): Buffer => Buffer.from(text, 'utf16le')
const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc((16 - (bytes.length % 16)) % 16)])

function uint(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function encrypt(algorithm: string, key: Buffer, vector: Buffer | null, bytes: Buffer): Buffer {
  const cipher = createCipheriv(algorithm, key, vector).setAutoPadding(false)
  return Buffer.concat([cipher.update(padded(bytes)), cipher.final()])
}

const hashWith =
  (algorithm: string) =>
  (...parts: Buffer[]): Buffer =>
    createHash(algorithm).update(Buffer.concat(parts)).digest()

function derive(hash: (...parts: Buffer[]) => Buffer, password: string): Buffer {
  let state = hash(salt, wide(password))
  for (let round = 0; round < rounds; round++) state = hash(uint(round), state)
  return state
}

const withSize = (size: number, content: Buffer): Buffer => Buffer.concat([uint(size), uint(0), content])

/** As Office 2010 and later write them: AES-256 and SHA-512. */
export function agilePackage(content: Buffer, password: string): Buffer {
  const hash = hashWith('sha512')
  const derived = derive(hash, password)
  const key = Buffer.alloc(32, 7)
  const verifier = Buffer.alloc(16, 9)
  const field = (block: string, bytes: Buffer): string =>
    encrypt('aes-256-cbc', hash(derived, Buffer.from(block, 'hex')).subarray(0, 32), salt, bytes).toString('base64')
  const common = `saltSize="16" blockSize="16" keyBits="256" hashSize="64" cipherAlgorithm="AES" cipherChaining="ChainingModeCBC" hashAlgorithm="SHA512" saltValue="${salt.toString('base64')}"`
  const xml = `<?xml version="1.0"?><encryption xmlns="http://schemas.microsoft.com/office/2006/encryption" xmlns:p="http://schemas.microsoft.com/office/2006/keyEncryptor/password"><keyData ${common}/><keyEncryptors><keyEncryptor><p:encryptedKey spinCount="${rounds}" ${common} encryptedVerifierHashInput="${field('fea7d2763b4b9e79', verifier)}" encryptedVerifierHashValue="${field('d7aa0f6d3061344e', hash(verifier))}" encryptedKeyValue="${field('146e0be7abacd0d6', key)}"/></keyEncryptor></keyEncryptors></encryption>`
  const segments = Array.from({ length: Math.ceil(content.length / 4096) }, (_, index) =>
    encrypt('aes-256-cbc', key, hash(salt, uint(index)).subarray(0, 16), content.subarray(index * 4096, (index + 1) * 4096)),
  )
  const info = Buffer.concat([Buffer.from('0400040040000000', 'hex'), Buffer.from(xml)])
  return ole({ EncryptionInfo: info, EncryptedPackage: withSize(content.length, Buffer.concat(segments)) })
}

/** As Office 2007 writes them: AES-128 and SHA-1. */
export function standardPackage(content: Buffer, password: string): Buffer {
  const hash = hashWith('sha1')
  const derived = hash(derive(hash, password), uint(0))
  const key = hash(Buffer.alloc(64, 0x36).map((byte, at) => byte ^ (derived[at] ?? 0)) as Buffer).subarray(0, 16)
  const seal = (bytes: Buffer): Buffer => encrypt('aes-128-ecb', key, null, bytes)
  const verifier = Buffer.alloc(16, 9)
  const header = Buffer.concat([uint(0x24), uint(0), uint(0x660e), uint(0x8004), uint(128), uint(0x18), uint(0), uint(0), wide('x\0')])
  const verification = Buffer.concat([uint(16), salt, seal(verifier), uint(20), seal(hash(verifier))])
  const info = Buffer.concat([Buffer.from('0300020024000000', 'hex'), uint(header.length), header, verification])
  return ole({ EncryptionInfo: info, EncryptedPackage: withSize(content.length, seal(content)) })
}
