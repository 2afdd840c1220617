import { existsSync, readFileSync } from 'node:fs'

/** The version in package.json, which is one folder up from the source and two from the build. */
export function versionOfDms(): string {
  const file = ['../package.json', '../../package.json'].map((path) => new URL(path, import.meta.url)).find((url) => existsSync(url))
  if (!file) throw new Error('package.json is missing')
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
