/** Paths of stored files. Only valid addresses become paths. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { addressPattern, type FileStore, InvalidAddress } from '../ports/file-store.ts'

/** Returns 64 random bits in hex, which make each address unique even for equal bytes. */
export const newGeneration = (): string => randomBytes(8).toString('hex')

/** Returns the path of a file below `root`, in two levels of folders to keep listings short. Throws InvalidAddress. */
export const pathOf = (root: string, address: string): string => {
  const valid = checkAddress(address)
  return join(root, valid.slice(0, 2), valid.slice(2, 4), valid)
}

/** Returns the address if it is valid. Throws InvalidAddress. */
export function checkAddress(address: string): string {
  if (!addressPattern.test(address)) throw new InvalidAddress(address)
  return address
}

type Files = ReturnType<FileStore['list']>

/** Yields the files of two lists, which are in order of address, in this order. Of equal addresses, that of `left` comes first. */
export async function* mergeByAddress(left: Files, right: Files): Files {
  const [ours, theirs] = [left[Symbol.asyncIterator](), right[Symbol.asyncIterator]()]
  let [one, two] = [await ours.next(), await theirs.next()]
  while (!one.done || !two.done) {
    if (!one.done && (two.done || one.value.address <= two.value.address)) {
      yield one.value
      one = await ours.next()
    } else if (!two.done) {
      yield two.value
      two = await theirs.next()
    }
  }
}

/** Returns the folder of the files that were derived from a stored file. Throws InvalidAddress. */
export function derivedFolder(root: string, sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new InvalidAddress(sha256)
  return join(root, '.derived', sha256.slice(0, 2), sha256)
}

/** Returns the file name of a derived file of one owner. Throws InvalidAddress if an argument could lead to another folder. */
export function derivedName(ownerId: string, name: string): string {
  if (!/^[\w-]{1,64}$/.test(ownerId) || !/^\w[\w.-]{0,63}$/.test(name)) throw new InvalidAddress(`${ownerId} ${name}`)
  return `${ownerId}_${name}`
}

/** Returns owner and name of a derived file from its file name; null if it is not the name of one. Ids of owners have no underscore. */
export function parseDerivedName(file: string): { ownerId: string; name: string } | null {
  const [, ownerId, name] = /^([a-zA-Z0-9-]{1,64})_(\w[\w.-]{0,63})$/.exec(file) ?? []
  return ownerId && name ? { ownerId, name } : null
}
