/** Reads config.toml as values with positions. */
import { dirname, resolve } from 'node:path'
import { parse, TomlError } from 'smol-toml'
import { editDistance } from '../edit-distance.ts'
import { formatFileError } from '../errors.ts'
import type { ReadFile } from './environment.ts'
import { settings } from './schema.ts'

const sections = new Set([...settings.keys()].filter((key) => key.includes('.')).map((key) => key.split('.', 1)[0] ?? ''))

export interface FileValues {
  readonly path: string
  readonly warnings: readonly string[]
  find(key: string): { origin: 'file'; source: string; place: string; value: unknown; base: string } | null
}

/** Reads the first existing file and adds its problems to `problems`. Returns null if no file exists or it is unreadable. */
export function readConfigFile(
  candidates: readonly { path: string; required: boolean }[],
  problems: string[],
  readFile: ReadFile,
): FileValues | null {
  for (const { path, required } of candidates) {
    try {
      return parseConfigFile(resolve(path), readFile(resolve(path)), problems)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      if (error instanceof TomlError) problems.push(`${resolve(path)}:${error.line}:${error.column}  ${firstLine(error)}`)
      else if (code === undefined) throw error
      else if (!required && (code === 'ENOENT' || code === 'ENOTDIR')) continue
      else problems.push(formatFileError(`${resolve(path)}: ${(error as Error).message}`))
      return null
    }
  }
  return null
}

function parseConfigFile(path: string, { text: toml, mode }: ReturnType<ReadFile>, problems: string[]): FileValues {
  const positions = findPositions(toml)
  const values = new Map<string, unknown>()
  const addUnknown = (kind: string, name: string, candidates: Iterable<string>): void => {
    problems.push(`${path}:${positionOf(positions, name)}  unknown ${kind}${suggest(name, candidates)}`)
  }
  for (const [name, entry] of Object.entries(parse(toml))) {
    if (settings.has(name)) values.set(name, entry)
    else if (!sections.has(name))
      addUnknown(isTable(entry) ? `section [${name}]` : `key ${name}`, name, isTable(entry) ? sections : settings.keys())
    else if (!isTable(entry)) problems.push(`${path}:${positionOf(positions, name)}  ${name} is a section: write [${name}]`)
    else
      for (const [key, value] of Object.entries(entry)) {
        if (settings.has(`${name}.${key}`)) values.set(`${name}.${key}`, value)
        else addUnknown(`key ${name}.${key}`, `${name}.${key}`, settings.keys())
      }
  }
  const secrets = [...values].filter(([key, value]) => settings.get(key)?.secret && value !== '').map(([key]) => key)
  const isPublic = (mode & 0o004) !== 0
  return {
    path,
    warnings:
      isPublic && secrets.length > 0 ? [`${path} is readable by everyone and holds ${secrets.join(', ')}   fix: chmod 640 ${path}`] : [],
    find(key) {
      if (!values.has(key)) return null
      const position = positionOf(positions, key)
      const source = `${path}:${position.split(':')[0]}`
      return { origin: 'file', source, place: `${path}:${position}  ${key}`, value: values.get(key), base: dirname(path) }
    },
  }
}

const isTable = (entry: unknown): entry is Record<string, unknown> =>
  typeof entry === 'object' && entry !== null && !Array.isArray(entry) && !(entry instanceof Date)

/** Returns line:column of every key and section. The parser does not report positions. */
function findPositions(toml: string): Map<string, string> {
  const positions = new Map<string, string>()
  let section = ''
  for (const [index, line] of toml.split('\n').entries()) {
    const [, indent = '', header, key] = /^(\s*)(?:\[([^[\]]+)\]|([^\s#=[][^=]*)=)/.exec(line) ?? []
    const name = (header ?? key)?.replace(/["'\s]/g, '')
    if (name === undefined) continue
    if (header !== undefined) section = `${name}.`
    const full = header !== undefined ? name : `${section}${name}`
    if (!positions.has(full)) positions.set(full, `${index + 1}:${indent.length + 1}`)
  }
  return positions
}

/** Returns the position of a key, or that of its inline table. */
const positionOf = (positions: ReadonlyMap<string, string>, key: string): string =>
  positions.get(key) ?? positions.get(key.split('.')[0] ?? '') ?? '1:1'

/** Returns ` — did you mean X?` with the nearest known name, or '' if none is near. */
export function suggest(name: string, names: Iterable<string>): string {
  const maxDistance = Math.max(2, Math.floor(name.length / 3))
  const [nearest] = [...names]
    .map((other) => ({ other, distance: editDistance(name, other, maxDistance) }))
    .sort((one, other) => one.distance - other.distance)
  return nearest && nearest.distance <= maxDistance ? ` — did you mean ${nearest.other}?` : ''
}

/** Returns the first line of the parser's message, without the excerpt of the file below it. */
const firstLine = (error: TomlError): string => error.message.split('\n', 1)[0]?.replace(/^Invalid TOML document: /, '') ?? 'not TOML'
