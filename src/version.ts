import { readFileSync } from 'node:fs'

/** A file one folder up from the source and from the build. */
const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

/** The version in package.json. */
export function versionOfDms(): string {
  return (JSON.parse(read('package.json')) as { version: string }).version
}

/** The commit that is checked out where dms runs from a repository; null where it was installed as a package. */
export function commitOfDms(): string | null {
  try {
    const head = read('.git/HEAD').trim()
    const ref = /^ref: (.+)$/.exec(head)?.[1]
    return ref === undefined ? head : commitOf(ref)
  } catch {
    return null
  }
}

function commitOf(ref: string): string | null {
  try {
    return read(`.git/${ref}`).trim()
  } catch {
    const line = read('.git/packed-refs')
      .split('\n')
      .find((each) => each.endsWith(` ${ref}`))
    return line?.split(' ')[0] ?? null
  }
}
