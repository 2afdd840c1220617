import type { App } from '../../src/app.ts'
import { userColumns } from '../../src/cli/arguments/user-file.ts'
import { auditExport } from '../../src/cli/export/audit-export.ts'
import { formatCsv } from '../../src/cli/output/csv.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { rejectOutputFlags } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

type ExportRow = Readonly<Partial<Record<(typeof userColumns)[number], string | boolean | null>>>

export const exportUsers = (cli: Cli) =>
  manual('export', {
    summary: 'Export all users in the format of `users import`',
    examples: [
      ['users export > staff.csv', ''],
      ['users export -o jsonl | jq -r .email', ''],
      ['users export --with-hashes > all.csv', 'with password hashes; keep this file private'],
    ],
    exits: '0 exported · 4 not signed in · 5 not an admin · 69 server unreachable',
    notes: ['Prints CSV unless -o json or -o jsonl is given. --with-hashes works on the server only.'],
  })
    .option('--with-hashes', 'include password_hash, so that an import keeps passwords')
    .action(async ({ withHashes = false }: { withHashes?: boolean }) => {
      rejectOutputFlags({ ...cli.options, header: null }, 'the export is CSV', ['csv', 'json', 'jsonl'])
      const app = withHashes ? await cli.app('users export --with-hashes') : null
      const rows = app ? await loadRowsWithHashes(app) : await loadRows(cli)
      await auditExport(cli, app ?? cli.localApp, 'dms users export', { users: rows.length, with_hashes: withHashes })
      const { isJson, header } = cli.options
      if (isJson) return cli.print(rows, { columns: [] })
      const columns = userColumns.filter((name) => name !== 'password' && (withHashes || name !== 'password_hash'))
      const lines = rows.map((row) => columns.map((name) => row[name] ?? ''))
      cli.write(formatCsv(header === false ? lines : [columns, ...lines]))
    })

async function loadRows(cli: Cli): Promise<ExportRow[]> {
  const client = await cli.client()
  return Array.fromAsync(client.users.list(), ({ username, email, role, display_name, disabled }) => ({
    username,
    email,
    role,
    display_name,
    disabled,
  }))
}

async function loadRowsWithHashes(app: App): Promise<ExportRow[]> {
  const { list } = await import('../../src/users/users.ts')
  const rows: ExportRow[] = []
  for (let cursor: string | undefined; ; ) {
    const { rows: users, next } = await list(app.db, {}, { page: 1, per_page: 1000, cursor })
    for (const { username, email, role, display_name, disabled, password_hash } of users)
      rows.push({ username, email, ...(password_hash === null ? {} : { password_hash }), role, display_name, disabled })
    if (next === null) return rows
    cursor = next
  }
}
