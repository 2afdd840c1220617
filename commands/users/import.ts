import { type FileHandle, open } from 'node:fs/promises'
import { Option } from 'commander'
import { parseCount, parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { type RowOptions, readUserRows, rowFormats, type UserRow } from '../../src/cli/arguments/user-file.ts'
import { type Batch, startBatch } from '../../src/cli/output/batch-output.ts'
import { formatCsv } from '../../src/cli/output/csv.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { describeRejects, formatRowError, openRejects, type RejectedRow } from '../../src/cli/output/user-rejects.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { exitOf, isExpectedExit, unusablePath, usage } from '../../src/cli/runtime/exit.ts'
import { exitOfAbort, mapSequential, toItemError } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'
import { slicesOf } from '../../src/slices.ts'
import type { ImportReport } from '../../src/users/import.ts'

type Result = ImportReport['results'][number]
type Fields = Record<string, unknown>

interface Flags extends RowOptions {
  defaultRole?: string
  onConflict: 'skip' | 'update' | 'fail'
  passwords: 'column' | 'generate' | 'none'
  passwordsOut?: string
  rejects?: string
  atomic?: boolean
  maxErrors?: string
  lockTimeout: string
  dryRun?: boolean
}

/**
 * Rows per request: few, for the progress and for the timeout of a proxy while passwords are hashed. With --max-errors fewer, to stop soon after
 * the last allowed error.
 */
const batchSizes = { default: 250, withMaxErrors: 20, atomic: 10_000 }

export const importUsers = (cli: Cli) =>
  manual('import <file|->', {
    summary: 'Create or update users from a file',
    examples: [
      ['users import staff.csv --on-conflict update --rejects bad.csv', 'bad rows go to bad.csv, to correct and import again'],
      ['users import staff.csv --map username=login,email=mail -n', 'dry run'],
      ['users import new.jsonl --passwords generate --passwords-out new.pw', 'with generated passwords'],
      ['users import - --format csv -q', 'from a pipe'],
    ],
    exits:
      '0 all rows imported · 3 some failed · 1 all failed · 2 unreadable file or unknown column · 7 user exists (--on-conflict fail), bad row (--atomic), or file of --passwords-out exists · 75 another import is running',
    notes: [
      'Without --atomic each row is imported on its own. On the server only one import runs at a time.',
      'The file of --rejects has the columns of the import, with passwords, and _line, _field, _code and _error.',
    ],
  })
    .addOption(new Option('--format <format>', 'file format (default: by file extension)').choices(rowFormats))
    .option('--map <pairs>', 'column names in the file: username=login,email=mail')
    .addOption(new Option('--default-role <role>', 'role of rows without one').choices(['user', 'admin']))
    .addOption(
      new Option('--on-conflict <what>', 'action if the user name, or else the e-mail address, exists')
        .choices(['skip', 'update', 'fail'])
        .default('skip'),
    )
    .addOption(
      new Option('--passwords <from>', 'columns password and password_hash; generated for new users; none')
        .choices(['column', 'generate', 'none'])
        .default('column'),
    )
    .option('--passwords-out <file>', 'write generated passwords to this CSV file (mode 0600, never overwritten)')
    .option('--rejects <file>', 'write bad rows to this file (mode 0600), with their errors')
    .option('--atomic', 'import all rows or none')
    .addOption(new Option('--max-errors <n>', 'stop after this many bad rows').conflicts('atomic'))
    .option('--lock-timeout <duration>', 'time to wait for another import', '0s')
    .option('-n, --dry-run', 'check everything, change nothing')
    .action(async (file: string, flags: Flags) => {
      if ((flags.passwords === 'generate') !== (flags.passwordsOut !== undefined))
        throw usage('--passwords generate and --passwords-out FILE must be used together')
      const maxErrors = flags.maxErrors === undefined ? Number.POSITIVE_INFINITY : parseCount('--max-errors', flags.maxErrors)
      if (cli.target.url !== null && flags.lockTimeout !== '0s')
        throw usage('--lock-timeout works on the server only', 'omit it, or pass --local')
      const lockTimeoutMs = parseDurationFlag('--lock-timeout', flags.lockTimeout)
      const rows = (await readUserRows(file, flags)).map((row) => prepareRow(row, flags))
      if (flags.atomic && rows.length > batchSizes.atomic)
        throw usage(`--atomic is limited to ${batchSizes.atomic} rows; the file has ${rows.length}`)
      await runExclusively(cli, lockTimeoutMs, (client) => importRows(cli, client, rows, { ...flags, maxErrors }, file))
    })

/** Runs `work` with a client. On the server it holds the import lock. */
async function runExclusively(cli: Cli, lockTimeoutMs: number, work: (client: Client) => Promise<void>): Promise<void> {
  if (cli.target.url !== null) return work(await cli.client())
  const app = await cli.app('users import')
  const [{ withLock }, { openLocalClient }] = await Promise.all([
    import('../../src/db/lock.ts'),
    import('../../src/cli/remote/local-client.ts'),
  ])
  const client = await openLocalClient(app, cli)
  await withLock(app.database, 'users.import', lockTimeoutMs, () => work(client), { signal: cli.signal })
}

function prepareRow({ location, fields }: UserRow, { passwords, defaultRole }: Flags): UserRow {
  if (typeof fields !== 'object' || fields === null) return { location, fields }
  const { password, password_hash, ...others } = fields as Fields
  const secrets = passwords === 'column' ? { password, password_hash } : {}
  return { location, fields: { ...(defaultRole ? { role: defaultRole } : {}), ...others, ...secrets } }
}

type Importing = Omit<Flags, 'maxErrors'> & { maxErrors: number }

async function importRows(cli: Cli, client: Client, rows: readonly UserRow[], flags: Importing, file: string): Promise<void> {
  const batch = startBatch(cli, 'users import', { isDryRun: flags.dryRun === true })
  // Both files are opened before a row is reported or sent.
  const rejects = flags.rejects === undefined ? null : await openRejects(flags.rejects, file === '-' ? '/dev/stdin' : file)
  const passwordFile = await openPasswordFile(flags).catch(async (error) => {
    await rejects?.close([])
    throw error
  })
  const progress = cli.progress('users import')
  const rejected: RejectedRow[] = []
  // The server finds duplicates within a request, and an atomic import is one request.
  const uniqueRows = flags.atomic ? rows : await rejectDuplicates(rows, batch, rejected)
  const size = flags.atomic ? batchSizes.atomic : Number.isFinite(flags.maxErrors) ? batchSizes.withMaxErrors : batchSizes.default
  let failure = null as { error: unknown } | null
  let doneCount = rows.length - uniqueRows.length
  try {
    progress.update({ done: doneCount, total: rows.length })
    await mapSequential(slicesOf(uniqueRows, size), async (part) => {
      if (cli.signal.aborted || rejected.length >= flags.maxErrors) return
      const users =
        flags.passwords === 'generate' ? await generatePasswords(client, part, flags, passwordFile) : part.map(({ fields }) => fields)
      for (const answered of (await send(client, users, flags)).results) {
        const row = part[answered.index] as UserRow
        const result = withLocation(answered, part)
        addItem(batch, row, result, flags)
        if (result.error) rejected.push({ row, error: result.error })
      }
      doneCount += part.length
      progress.update({ done: doneCount, total: rows.length })
    })
  } catch (error) {
    failure = { error }
  } finally {
    await passwordFile?.close()
  }
  progress.done()
  if (failure && isExpectedExit(failure.error)) {
    await rejects?.close([])
    throw failure.error
  }
  reportStop(cli, rejected, rows.length, flags)
  if (cli.signal.aborted) cli.exit = exitOfAbort(cli.signal)
  if (failure) cli.exit = exitOf(failure.error)
  if (!failure || doneCount > 0) batch.finish(failure ? { error: toItemError(failure.error) } : {})
  await rejects?.close(rejected)
  if (rejected.length > 0 && (flags.rejects !== undefined || file !== '-'))
    cli.note(cli.options.formatFix(describeRejects(rejected.length, flags)))
  if (failure) throw failure.error
}

/** Reports bad rows that stopped the import, and sets the exit code of --atomic and --on-conflict fail. */
function reportStop(cli: Cli, rejected: readonly RejectedRow[], rowCount: number, { maxErrors, atomic, onConflict }: Importing): void {
  if (rejected.length >= maxErrors) cli.warn(`stopped after ${rejected.length} bad rows (--max-errors)`)
  if (atomic && rejected.length > 0) {
    cli.exit = 'CONFLICT'
    cli.warn(`nothing was imported: ${rejected.length} of ${rowCount} rows are bad (--atomic)`)
  }
  if (onConflict === 'fail' && rejected.some(({ error }) => error.code === 'DUPLICATE_RESOURCE')) cli.exit = 'CONFLICT'
}

const send = (client: Client, users: unknown[], { onConflict, atomic = false, dryRun = false }: Importing): Promise<ImportReport> =>
  client.users.import({ users, on_conflict: onConflict }, { dry_run: dryRun, atomic })

/** Names the earlier row of a duplicate by its line. The server knows its index only. */
function withLocation(result: Result, rows: readonly UserRow[]): Result {
  const { first_index, field } = (result.error?.details ?? {}) as { first_index?: number; field?: string }
  const first = first_index === undefined ? undefined : rows[first_index]
  return result.error && first ? { ...result, error: duplicateError(field ?? '', first.location) } : result
}

const duplicateError = (field: string, first: string) => ({
  code: 'DUPLICATE_RESOURCE',
  message: `duplicate ${field}: see ${first}`,
  details: { field },
})

/** Rejects rows whose user name or e-mail address occurs in an earlier row. The server finds duplicates within a request only. */
async function rejectDuplicates(rows: readonly UserRow[], batch: Batch, rejected: RejectedRow[]): Promise<UserRow[]> {
  const { emailKey, usernameKey } = await import('../../src/http/user-identifier.ts')
  const locations = new Map<string, string>()
  return rows.filter((row) => {
    const { username, email } = (row.fields ?? {}) as Fields
    for (const [field, key] of [
      ['username', typeof username === 'string' && `n:${usernameKey(username)}`],
      ['email', typeof email === 'string' && `e:${emailKey(email)}`],
    ] as const) {
      if (!key) continue
      const first = locations.get(key)
      if (first === undefined) locations.set(key, row.location)
      else {
        const error = duplicateError(field, first)
        const result: Result = { index: 0, username: typeof username === 'string' ? username : null, action: 'failed', error }
        addItem(batch, row, result, null)
        rejected.push({ row, error })
        return false
      }
    }
    return true
  })
}

/** Generates passwords for new users and writes them to the file before the users exist. An interruption then loses no password. */
async function generatePasswords(client: Client, rows: readonly UserRow[], flags: Importing, file: FileHandle | null): Promise<unknown[]> {
  const { generatePassword } = await import('../../src/users/passwords.ts')
  const allFields = rows.map(({ fields }) => fields)
  const { results } = await send(client, allFields, { ...flags, dryRun: true })
  const users = allFields.map((fields, index) =>
    results[index]?.action === 'created' ? { ...(fields as Fields), password: generatePassword() } : fields,
  )
  const isRejected = flags.atomic && results.some(({ action }) => action === 'failed')
  const created = users.filter((_, index) => !isRejected && results[index]?.action === 'created') as {
    username: string
    password: string
  }[]
  await file?.appendFile(created.map(({ username, password }) => `${formatCsv([[username]]).trimEnd()},${password}\n`).join(''))
  await file?.sync()
  return users
}

/** Creates the file of --passwords-out; null without the flag and in a dry run. Throws Failure USAGE, CONFLICT if it exists. */
async function openPasswordFile({ passwordsOut: path, dryRun = false }: Importing): Promise<FileHandle | null> {
  if (path === undefined || dryRun) return null
  const file = await open(path, 'wx', 0o600).catch((error: Error) => {
    throw unusablePath('--passwords-out', path, error)
  })
  await file.appendFile('username,password\n')
  return file
}

function addItem(
  batch: Batch,
  { location }: UserRow,
  { username, action, id, error }: Result,
  flags: Pick<Flags, 'onConflict'> | null,
): void {
  batch.add({
    // The API answers "skipped" for an update without changes.
    action: action === 'skipped' && flags?.onConflict === 'update' ? 'unchanged' : action,
    key: username ?? location,
    line: Number(location.split(' ')[1]),
    ...(id ? { id } : {}),
    ...(error ? { error: { code: error.code, message: `${location}: ${formatRowError(error)}` } } : {}),
  })
}
