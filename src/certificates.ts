/** Certificates of authorities, from files that settings and flags name. */
import { readFileSync } from 'node:fs'
import { getCACertificates } from 'node:tls'
import { ConfigError } from './errors.ts'

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
