import { readFileSync } from 'node:fs'

/** The version in package.json, which is one folder up from the source and from the build. */
export function versionOfDms(): string {
  return (JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }).version
}
