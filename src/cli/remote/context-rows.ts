/** Contexts as rows, without secrets. */
import { type Column, columnsOf } from '../output/output.ts'
import type { Cli } from '../runtime/context.ts'
import type { Env } from '../runtime/private-file.ts'
import { type Context, type Contexts, localContext } from './contexts.ts'
import { loadContexts } from './contexts-file.ts'
import { type Credentials, loadCredentials } from './credentials.ts'

export interface ContextRow {
  readonly name: string
  readonly current: boolean
  /** null: this machine */
  readonly url: string | null
  readonly username: string | null
  /** null: not signed in */
  readonly token_expires_at: string | null
  readonly password_file: string | null
  readonly password_command: string | null
  readonly ca_file: string | null
  readonly insecure_http: boolean
}

export const contextColumns: Column<ContextRow>[] = [
  { name: 'name' },
  { name: 'current', value: ({ current }) => (current ? '*' : '') },
  { name: 'url' },
  { name: 'username', title: 'USER' },
  { name: 'token_expires_at', title: 'TOKEN_EXPIRES' },
  ...columnsOf(['password_file', 'password_command', 'ca_file', 'insecure_http'], { show: 'wide' }),
]

/** Prints a context, or `sentence` on a terminal. */
export function printContext(cli: Cli, row: ContextRow | undefined, sentence?: string | readonly string[]): void {
  const columns = contextColumns.map(({ show: _wide, ...column }) => column)
  if (row) cli.print(row, { columns, id: 'name', sentence })
}

/** Returns the stored context as a row. */
export async function findContextRow(env: Env, name: string): Promise<ContextRow | undefined> {
  return (await listContextRows(await loadContexts(env), env)).find((row) => row.name === name)
}

/** Returns all contexts, this machine first. */
export async function listContextRows(contexts: Contexts, env: Env): Promise<ContextRow[]> {
  const credentials = await loadCredentials(env)
  const names = [...contexts.byName.keys()].sort()
  return [
    rowOf(localContext, null, contexts, credentials),
    ...names.map((name) => rowOf(name, contexts.byName.get(name) ?? null, contexts, credentials)),
  ]
}

function rowOf(name: string, context: Context | null, { current }: Contexts, credentials: Credentials): ContextRow {
  const credential = credentials[name]
  return {
    name,
    current: name === current,
    url: context?.url ?? null,
    username: context?.username ?? null,
    token_expires_at: credential && credential.url === context?.url ? credential.expires_at : null,
    password_file: context?.password_file ?? null,
    password_command: context?.password_command ?? null,
    ca_file: context?.ca_file ?? null,
    insecure_http: context?.insecure_http ?? false,
  }
}
