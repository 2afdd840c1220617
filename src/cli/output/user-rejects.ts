/** Rejected rows of an import of users. */
import type { ImportReport } from '../../users/import.ts'
import { type UserRow, userColumns } from '../arguments/user-file.ts'
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

/** Formats the rows as CSV with the columns of the import and the errors. The file can be corrected and imported, so it contains passwords. */
export function formatRejects(rejected: readonly RejectedRow[]): string {
  const lines = rejected.map(({ row: { location, fields }, error }) => {
    const row = (typeof fields === 'object' && fields !== null ? fields : {}) as Record<string, unknown>
    const values = userColumns.map((name) => row[name])
    const issues = issuesOf(error)
    const paths = issues.map(({ path }) => path).join(' ')
    return [...values, location.split(' ')[1], paths, error.code, issues.map(({ message }) => message).join('; ')]
  })
  return formatCsv([[...userColumns, '_line', '_field', '_code', '_error'], ...lines])
}

function issuesOf({ message, details }: RowError): { path: string; message: string }[] {
  const { issues, field } = details as { issues?: { path: string; message: string }[]; field?: string }
  return issues ?? [{ path: field ?? '', message }]
}
