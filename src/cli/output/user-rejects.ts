/** Rejected rows of an import of users. */
import type { ImportReport } from '../../users/import.ts'
import { type UserRow, userColumns } from '../arguments/user-file.ts'
import { formatCsvField } from './cells.ts'

type RowError = NonNullable<ImportReport['results'][number]['error']>

export interface RejectedRow {
  readonly row: UserRow
  readonly error: RowError
}

/** Formats all errors of a row in one line. */
export const formatRowError = (error: RowError): string =>
  reasons(error)
    .map(({ path, message }) => (path ? `${path}: ${message}` : message))
    .join('; ')

/** Formats the rows as CSV with the columns of the import and the errors, without secrets. The file can be corrected and imported. */
export function formatRejects(rejected: readonly RejectedRow[]): string {
  const lines = rejected.map(({ row: { location, fields }, error }) => {
    const row = (typeof fields === 'object' && fields !== null ? fields : {}) as Record<string, unknown>
    const values = userColumns.map((name) => (name.startsWith('password') && row[name] !== undefined ? '******' : row[name]))
    const why = reasons(error)
    return [
      ...values,
      location.split(' ')[1],
      why.map(({ path }) => path).join(' '),
      error.code,
      why.map(({ message }) => message).join('; '),
    ]
  })
  return [[...userColumns, '_line', '_field', '_code', '_error'], ...lines]
    .map((line) => `${line.map(formatCsvField).join(',')}\n`)
    .join('')
}

function reasons({ message, details }: RowError): { path: string; message: string }[] {
  const { issues, field } = details as { issues?: { path: string; message: string }[]; field?: string }
  return issues ?? [{ path: field ?? '', message }]
}
