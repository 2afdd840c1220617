/** Audit entry of an export on this machine. Servers log what remote exports read. */
import type { App } from '../../app.ts'
import type { Cli } from '../runtime/context.ts'

/** Writes an export to the audit log of `app`; null: a remote server is exported. */
export async function auditExport(cli: Cli, app: App | null, action: string, details: Record<string, unknown>): Promise<void> {
  if (!app) return
  const { auditCommand } = await import('../remote/local-client.ts')
  await auditCommand(app, cli, { action, details })
}
