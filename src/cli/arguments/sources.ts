/** Sources in arguments: look-up, flags and columns. */

import type { Command } from 'commander'
import type { Client } from '../../client/client.ts'
import type { Source } from '../../client/sources.ts'
import type { SplitMode } from '../../db/schema-documents.ts'
import { isId } from '../../id.ts'
import { dms } from '../../log/fix.ts'
import { type Column, columnsOf } from '../output/output.ts'
import { printIdLookup } from '../remote/curl-lookup.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure, usage } from '../runtime/exit.ts'
import { collectValues, parseDurationFlag, splitOption } from './flag-values.ts'
import { readSecret } from './secret.ts'

export const sourceColumns: Column<Source>[] = [
  ...columnsOf(['name', 'type', 'status']),
  { name: 'document_count', title: 'DOCUMENTS', align: 'right' },
  ...columnsOf(['last_sync', 'next_sync']),
  ...columnsOf(['id', 'url'], { show: 'wide' }),
  { name: 'sync_interval', title: 'INTERVAL', show: 'wide', align: 'right' },
  { name: 'last_error', show: 'wide' },
  { name: 'recursive', show: 'asked' },
  { name: 'file_patterns', title: 'PATTERNS', show: 'asked' },
  { name: 'has_credentials', title: 'CREDENTIALS', show: 'asked' },
  { name: 'owner_id', title: 'OWNER', show: 'asked' },
  ...columnsOf(['created_at', 'updated_at'], { show: 'asked' }),
]

/** Columns of a single source. */
export const allSourceColumns = sourceColumns.map(({ show: _, ...column }) => column)

/** Finds a source by name (case-insensitive) or id. A client that prints requests returns the id only. Throws Failure NOT_FOUND; USAGE if the name is ambiguous. */
export async function findSource(client: Client, nameOrId: string): Promise<Source> {
  const entries = { path: '/api/sources', list: 'sources', fields: ['name'], variable: 'source' }
  const printedId = printIdLookup(client, nameOrId, entries)
  if (printedId !== null) return { id: printedId, name: nameOrId.trim() } as Source
  if (isId(nameOrId)) return client.sources.get(nameOrId.toLowerCase())
  const [source] = selectSources(await client.sources.list(), [nameOrId])
  return source as Source
}

/** Returns the id of the source. Looks ids up too, so that an unknown id fails. Throws like findSource(). */
export const findSourceId = async (client: Client, nameOrId: string): Promise<string> => (await findSource(client, nameOrId)).id

/** Selects sources by name or id, without duplicates. Throws like findSource(). */
export function selectSources(sources: readonly Source[], namesOrIds: readonly string[]): Source[] {
  const selected = namesOrIds.map((nameOrId) => {
    const key = nameOrId.trim().toLowerCase()
    const [source, ...others] = sources.filter(({ id, name }) => id === key || name.toLowerCase() === key)
    if (!source) throw new Failure('NOT_FOUND', `no source "${nameOrId}"`, { fix: dms`sources list` })
    if (others.length > 0)
      throw usage(`several sources are called "${nameOrId}": ${[source, ...others].map(({ id }) => id).join(', ')}`, 'pass the id')
    return source
  })
  return [...new Set(selected)]
}

export interface AddressFlags {
  address?: string
  username?: string
  passwordStdin?: boolean
  passwordFile?: string
  passwordPrompt?: boolean
}

export interface SourceFlags extends AddressFlags {
  name?: string
  interval?: string
  recursive?: boolean
  pattern?: string[]
  split?: SplitMode
}

/** Adds the flags of address and credentials. */
export const addAddressFlags = (command: Command): Command =>
  command
    .option('--address <url>', 'URL of a WebDAV folder or S3 bucket, or a folder on the server; also --url')
    .option('--username <name>', 'user name; for S3 the access key id')
    .option('--password-stdin', 'read the password from standard input')
    .option('--password-file <file>', 'read the password from a file')
    .option('--password-prompt', 'ask for the password')

/** Adds the flags of address, credentials, selection and interval. */
export const addSourceFlags = (command: Command): Command =>
  addAddressFlags(command)
    .option('--name <name>', 'name of the source')
    .option('--interval <duration>', 'time between syncs, e.g. 1h; 0 disables automatic syncs')
    .option('--recursive', 'include subfolders')
    .option('--no-recursive', 'exclude subfolders')
    .option('--pattern <glob>', 'only matching files, e.g. *.pdf or in/**/*.txt; !tmp/** excludes; repeatable', collectValues)
    .addOption(splitOption())

/** Reads the password if a flag asks for it, else returns undefined. */
export async function readSourcePassword(
  cli: Cli,
  { passwordStdin: isStdin, passwordFile: file, passwordPrompt }: AddressFlags,
): Promise<string | undefined> {
  if (!isStdin && file === undefined && !passwordPrompt) return undefined
  return readSecret(cli.options, 'password', { isStdin, file })
}

/** Converts the flags to fields of the API. */
export async function readSourceFields(cli: Cli, flags: SourceFlags) {
  const { name, address: url, username, interval, recursive, pattern, split } = flags
  return {
    name,
    url,
    username,
    password: await readSourcePassword(cli, flags),
    sync_interval: interval === undefined ? undefined : Math.round(parseDurationFlag('--interval', interval) / 1000),
    recursive,
    file_patterns: pattern?.filter((glob) => glob !== ''),
    split,
  }
}
