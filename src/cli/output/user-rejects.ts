/** Rows of users that could not be imported, told to people and written to a file that can be corrected and imported again. */
import type { ImportReport } from '../../users/import.ts'
import { type UserRow, userColumns } from '../arguments/user-file.ts'
import { formatCsvField } from './cells.ts'

type RowError = NonNullable<ImportReport['results'][number]['error']>

export interface RejectedRow {
  readonly row: UserRow
  readonly error: RowError
}

/** All that is wrong with a row. */
export const formatRowError = (error: RowError): string =>
  reasons(error)
    .map(({ path, message }) => (path ? `${path}: ${message}` : message))
    .join('; ')

/** The rows as CSV under the import's own columns, with what is wrong beside them; secrets do not leave. */
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
