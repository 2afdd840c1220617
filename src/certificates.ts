/** Certificates of authorities, from files that settings and flags name. */
import { readFileSync } from 'node:fs'
import { getCACertificates } from 'node:tls'
import { ConfigError } from './errors.ts'

/** Returns the certificates of a file. Throws if the file cannot be read, or has no certificate in PEM: Node ignores such a file. */
export function readCertificates(path: string): string {
  const text = readFileSync(path, 'latin1')
  if (!text.includes('-----BEGIN CERTIFICATE-----')) throw new Error(`${path} has no certificate in PEM`)
  return text
}

/** Returns Node's authorities and those of a file. Throws like readCertificates(). */
export const readAuthorities = (path: string): string[] => [...getCACertificates('default'), readCertificates(path)]

/** Returns Node's authorities and those of the file that a setting names. Throws ConfigError. */
export function loadAuthorities(setting: string, path: string): string[] {
  try {
    return readAuthorities(path)
  } catch (error) {
    throw new ConfigError([`${setting} cannot be read: ${(error as Error).message}`])
  }
}
