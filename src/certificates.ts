/** Certificates of authorities and of the server, from files that settings and flags name. */
import { readFileSync } from 'node:fs'
import { createSecureContext, getCACertificates } from 'node:tls'
import { ConfigError, formatFileError } from './errors.ts'

/** Returns the certificates of a file. Throws if the file cannot be read or has no certificate in PEM. Node would ignore such a file. */
export function readCertificates(path: string): string {
  const text = readFileSync(path, 'latin1')
  if (!text.includes('-----BEGIN CERTIFICATE-----')) throw new Error(`${path} has no certificate in PEM`)
  return text
}

/** Returns the authorities of Node and of a file. Throws like readCertificates(). */
export const readAuthorities = (path: string): string[] => [...getCACertificates('default'), readCertificates(path)]

/** Returns the authorities of Node and of the file in a setting. Throws ConfigError. */
export function loadAuthorities(setting: string, path: string): string[] {
  try {
    return readAuthorities(path)
  } catch (error) {
    throw new ConfigError([`${setting} cannot be read: ${(error as Error).message}`])
  }
}

export interface KeyPair {
  readonly cert: string
  readonly key: string
}

/** Returns the certificate of the server and its key. `name` names settings in errors. Throws ConfigError if they cannot be read or used together. */
export function readKeyPair({ tls_cert, tls_key }: Record<'tls_cert' | 'tls_key', string>, name = (key: string): string => key): KeyPair {
  const problems: string[] = []
  const attempt = <T>(setting: 'tls_cert' | 'tls_key', path: string, work: () => T): T | undefined => {
    try {
      return work()
    } catch (error) {
      problems.push(formatFileError(`${name(`server.${setting}`)}: ${path}: ${(error as Error).message}`))
      return undefined
    }
  }
  const cert = attempt('tls_cert', tls_cert, () => readFileSync(tls_cert, 'utf8'))
  const key = attempt('tls_key', tls_key, () => readFileSync(tls_key, 'utf8'))
  if (cert !== undefined && key !== undefined) {
    const isUsable = attempt('tls_cert', tls_cert, () => createSecureContext({ cert }))
    if (isUsable) attempt('tls_key', tls_key, () => createSecureContext({ cert, key }))
    if (problems.length === 0) return { cert, key }
  }
  throw new ConfigError(problems)
}
