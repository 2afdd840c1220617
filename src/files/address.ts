/** From the address of a stored file to its path, and to nothing else. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { addressPattern, InvalidAddress } from '../ports/file-store.ts'

/** 64 random bits: the same bytes are never stored twice under one address. */
export const newGeneration = (): string => randomBytes(8).toString('hex')

/** Path of a file below `root`: two levels of folders keep each listing short. Throws InvalidAddress. */
export const pathOf = (root: string, address: string): string => {
  const valid = checkAddress(address)
  return join(root, valid.slice(0, 2), valid.slice(2, 4), valid)
}

/** Returns the address. Throws InvalidAddress where it is none. */
export function checkAddress(address: string): string {
  if (!addressPattern.test(address)) throw new InvalidAddress(address)
  return address
}

/** Path of the folder with all that was made of a file. Throws InvalidAddress. */
export function derivedFolder(root: string, sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new InvalidAddress(sha256)
  return join(root, '.derived', sha256.slice(0, 2), sha256)
}

/** A file name made of an owner's id and a name. Throws InvalidAddress where either could lead elsewhere. */
export function derivedName(ownerId: string, name: string): string {
  if (!/^[\w-]{1,64}$/.test(ownerId) || !/^\w[\w.-]{0,63}$/.test(name)) throw new InvalidAddress(`${ownerId} ${name}`)
  return `${ownerId}_${name}`
}
