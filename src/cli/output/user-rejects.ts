/** Rejected rows of an import of users. */
import { open, rm, stat } from 'node:fs/promises'
import { dms, type Fix } from '../../log/fix.ts'
import type { ImportReport } from '../../users/import.ts'
import { type UserRow, userColumns } from '../arguments/user-file.ts'
import { unusablePath, usage } from '../runtime/exit.ts'
import { formatCsv } from './csv.ts'

type RowError = NonNullable<ImportReport['results'][number]['error']>

export interface RejectedRow {
  readonly row: UserRow
  readonly error: RowError
}

/** Formats all errors of a row in one line. */
export const formatRowError = (error: RowError): string =>
  issuesOf(error)
    .map(({ path, message }) => (path ? `${path}: ${message}` : message))
    .join('; ')

/** A file for rejected rows, which only its owner can read. */
export interface RejectsFile {
  /** Replaces the content of the file with the rows. Without rows the file stays as it was. */
  close(rejected: readonly RejectedRow[]): Promise<void>
}

/**
 * Opens the file before the import, which must not end without it. Throws Failure USAGE for a path that cannot be written, and for the imported file,
 * whose other rows would be lost.
 */
export async function openRejects(path: string, importedPath: string): Promise<RejectsFile> {
  const [existing, imported] = await Promise.all([path, importedPath].map((one) => stat(one).catch(() => null)))
  if (existing?.isFile() && existing.ino === imported?.ino && existing.dev === imported.dev)
    throw usage(`--rejects ${path} is the file that is imported`, 'pass another file')
  const isNew = !existing
  const file = await open(path, 'a', 0o600).catch((error) => {
    throw unusablePath('--rejects', path, error)
  })
  return {
    async close(rejected) {
      try {
        if (rejected.length === 0) return void (isNew && (await rm(path, { force: true })))
        if ((await file.stat()).isFile()) {
          await file.chmod(0o600)
          await file.truncate()
        }
        await file.writeFile(formatRejects(rejected))
      } finally {
        await file.close()
      }
    },
  }
}

/** Returns the note on rejected rows with the next command. */
export function describeRejects(count: number, { rejects, onConflict }: { rejects?: string; onConflict: string }): Fix {
  if (rejects === undefined) return 'to write the bad rows to a file: --rejects FILE'
  const next = /\.csv$/i.test(rejects)
    ? dms`users import ${rejects} --on-conflict ${onConflict}`
    : dms`users import ${rejects} --format csv --on-conflict ${onConflict}`
  return [`wrote ${count} rows to ${rejects}; correct them and run: `, next]
}

/** Formats the rows as CSV with the columns of the import and the errors. The file can be corrected and imported, so it contains passwords. */
function formatRejects(rejected: readonly RejectedRow[]): string {
  const lines = rejected.map(({ row: { location, fields }, error }) => {
    const row = (typeof fields === 'object' && fields !== null ? fields : {}) as Record<string, unknown>
    const values = userColumns.map((name) => row[name])
    const issues = issuesOf(error)
    const paths = issues.map(({ path }) => path).join(' ')
    return [...values, location.split(' ')[1], paths, error.code, issues.map(({ message }) => message).join('; ')]
  })
  return formatCsv([[...userColumns, '_line', '_field', '_code', '_error'], ...lines], (text) => text)
}

function issuesOf({ message, details }: RowError): { path: string; message: string }[] {
  const { issues, field } = details as { issues?: { path: string; message: string }[]; field?: string }
  return issues ?? [{ path: field ?? '', message }]
}
