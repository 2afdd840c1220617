import { readFileSync } from 'node:fs'

/** Reads a file of the package by its path from the root. Throws if it does not exist. */
export const readPackageFile = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

/** Returns the version in package.json. */
export function readVersion(): string {
  return (JSON.parse(readPackageFile('package.json')) as { version: string }).version
}

/** Returns the commit if dms runs from a repository; null if it was installed as a package. */
export function readCommit(): string | null {
  try {
    const head = readPackageFile('.git/HEAD').trim()
    const ref = /^ref: (.+)$/.exec(head)?.[1]
    return ref === undefined ? head : readRef(ref)
  } catch {
    return null
  }
}

function readRef(ref: string): string | null {
  try {
    return readPackageFile(`.git/${ref}`).trim()
  } catch {
    const line = readPackageFile('.git/packed-refs')
      .split('\n')
      .find((each) => each.endsWith(` ${ref}`))
    return line?.split(' ')[0] ?? null
  }
}
