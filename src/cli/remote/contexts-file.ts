/** The file contexts.toml, which every command reads. */
import { join } from 'node:path'
import { Failure } from '../runtime/exit.ts'
import { configFolder, type Env, readPrivateFile, withFileLock, writePrivateFile } from '../runtime/private-file.ts'
import { type Context, type Contexts, localContext, parseServerUrl } from './contexts.ts'

const pathOf = (env: Env): string => join(configFolder(env), 'contexts.toml')

const fields = {
  url: 'string',
  username: 'string',
  password_file: 'string',
  password_command: 'string',
  ca_file: 'string',
  insecure_http: 'boolean',
} as const satisfies Record<keyof Context, string>

/** Loads the contexts. Throws Failure CONFIG for an invalid file. */
export async function loadContexts(env: Env): Promise<Contexts> {
  const path = pathOf(env)
  const text = await readPrivateFile(path)
  if (text === null) return { current: localContext, byName: new Map() }
  const { parse } = await import('smol-toml')
  try {
    return contextsIn(parse(text))
  } catch (error) {
    throw new Failure('CONFIG', `${path}: ${(error as Error).message.split('\n')[0]}`)
  }
}

/** Changes the contexts while holding the lock of the file. */
export async function updateContexts(env: Env, change: (contexts: Contexts) => Contexts | Promise<Contexts>): Promise<void> {
  const path = pathOf(env)
  await withFileLock(path, async () => {
    const { current, byName } = await change(await loadContexts(env))
    const { stringify } = await import('smol-toml')
    const text = stringify({ current: current === localContext ? undefined : current, contexts: Object.fromEntries(byName) })
    await writePrivateFile(path, `# Written by dms context and dms login; comments are lost.\n${text}\n`)
  })
}

function contextsIn(file: Record<string, unknown>): Contexts {
  const { current = localContext, contexts = {}, ...unknown } = file
  const [unknownKey] = Object.keys(unknown)
  if (unknownKey !== undefined) throw new Error(`unknown key ${unknownKey}`)
  if (typeof current !== 'string') throw new Error('current must be the name of a context')
  if (!isTable(contexts)) throw new Error('contexts must be sections such as [contexts.prod]')
  const byName = new Map(Object.entries(contexts).map(([name, entry]) => [name, contextIn(name, entry)] as const))
  if (current !== localContext && !byName.has(current)) throw new Error(`current is "${current}", but [contexts.${current}] does not exist`)
  return { current, byName }
}

function contextIn(name: string, entry: unknown): Context {
  if (!isTable(entry)) throw new Error(`contexts.${name} must be a section`)
  for (const [key, value] of Object.entries(entry)) {
    const kind = fields[key as keyof Context]
    if (kind === undefined) throw new Error(`unknown key contexts.${name}.${key}`)
    if (typeof value !== kind) throw new Error(`contexts.${name}.${key} must be a ${kind}`)
  }
  if (entry.url === undefined) throw new Error(`contexts.${name} has no url`)
  return { ...entry, url: parseServerUrl(String(entry.url), { isInsecureAllowed: entry.insecure_http === true }) } as Context
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)
