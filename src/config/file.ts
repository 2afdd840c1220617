/** config.toml as values with places, and everything that is wrong with the file itself. */

import { readFileSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parse, TomlError } from 'smol-toml'
import { editDistance } from '../edit-distance.ts'
import { settings } from './schema.ts'

const sections = new Set([...settings.keys()].filter((key) => key.includes('.')).map((key) => key.split('.', 1)[0] ?? ''))

export interface FileValues {
  readonly path: string
  readonly warnings: readonly string[]
  find(key: string): { origin: 'file'; source: string; place: string; value: unknown; base: string } | null
}

/** Reads the first file that exists; problems are added to `problems`. Null where there is none, or none that can be read. */
export function readConfigFile(candidates: readonly { path: string; required: boolean }[], problems: string[]): FileValues | null {
  for (const { path, required } of candidates) {
    try {
      return parseConfigFile(resolve(path), readFileSync(path, 'utf8'), problems)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      if (error instanceof TomlError) problems.push(`${resolve(path)}:${error.line}:${error.column}  ${firstLine(error)}`)
      else if (code === undefined) throw error
      else if (!required && (code === 'ENOENT' || code === 'ENOTDIR')) continue
      else problems.push(`${resolve(path)}: ${(error as Error).message}`)
      return null
    }
  }
  return null
}

function parseConfigFile(path: string, toml: string, problems: string[]): FileValues {
  const positions = findPositions(toml)
  const values = new Map<string, unknown>()
  const unknown = (what: string, name: string, known: Iterable<string>): void => {
    problems.push(`${path}:${positionOf(positions, name)}  unknown ${what}${suggest(name, known)}`)
  }
  for (const [name, entry] of Object.entries(parse(toml))) {
    if (settings.has(name)) values.set(name, entry)
    else if (!sections.has(name))
      unknown(isTable(entry) ? `section [${name}]` : `key ${name}`, name, isTable(entry) ? sections : settings.keys())
    else if (!isTable(entry)) problems.push(`${path}:${positionOf(positions, name)}  ${name} is a section: write [${name}]`)
    else
      for (const [key, value] of Object.entries(entry)) {
        if (settings.has(`${name}.${key}`)) values.set(`${name}.${key}`, value)
        else unknown(`key ${name}.${key}`, `${name}.${key}`, settings.keys())
      }
  }
  const secrets = [...values].filter(([key, value]) => settings.get(key)?.secret && value !== '').map(([key]) => key)
  const isPublic = (statSync(path).mode & 0o004) !== 0
  return {
    path,
    warnings:
      isPublic && secrets.length > 0 ? [`${path} is readable by everyone and holds ${secrets.join(', ')}   fix: chmod 640 ${path}`] : [],
    find(key) {
      if (!values.has(key)) return null
      const at = positionOf(positions, key)
      const source = `${path}:${at.split(':')[0]}`
      return { origin: 'file', source, place: `${path}:${at}  ${key}`, value: values.get(key), base: dirname(path) }
    },
  }
}

const isTable = (entry: unknown): entry is Record<string, unknown> =>
  typeof entry === 'object' && entry !== null && !Array.isArray(entry) && !(entry instanceof Date)

/** line:column of every key and section, found by reading line by line: the parser does not tell. */
function findPositions(toml: string): Map<string, string> {
  const places = new Map<string, string>()
  let section = ''
  for (const [index, line] of toml.split('\n').entries()) {
    const [, indent = '', header, key] = /^(\s*)(?:\[([^[\]]+)\]|([^\s#=[][^=]*)=)/.exec(line) ?? []
    const name = (header ?? key)?.replace(/["'\s]/g, '')
    if (name === undefined) continue
    if (header !== undefined) section = `${name}.`
    const full = header !== undefined ? name : `${section}${name}`
    if (!places.has(full)) places.set(full, `${index + 1}:${indent.length + 1}`)
  }
  return places
}

/** An inline table has no line of its own for its keys: the table's line then. */
const positionOf = (places: ReadonlyMap<string, string>, key: string): string =>
  places.get(key) ?? places.get(key.split('.')[0] ?? '') ?? '1:1'

/** Returns ` — did you mean X?` with the nearest known name, or '' if none is near. */
export function suggest(name: string, names: Iterable<string>): string {
  const maxDistance = Math.max(2, Math.floor(name.length / 3))
  const [nearest] = [...names]
    .map((other) => ({ other, distance: editDistance(name, other, maxDistance) }))
    .sort((one, other) => one.distance - other.distance)
  return nearest && nearest.distance <= maxDistance ? ` — did you mean ${nearest.other}?` : ''
}

/** The parser's message is followed by a picture of the lines; the first line is the reason. */
const firstLine = (error: TomlError): string => error.message.split('\n', 1)[0]?.replace(/^Invalid TOML document: /, '') ?? 'not TOML'
