/** Checks that nothing under retention or hold can be destroyed. */
import { sql } from 'kysely'
import { retainedIds } from '../documents/retention.ts'
import { requireCurrentSchema } from './database.ts'
import { type Check, type CheckResult, fail, ok, warn } from './doctor.ts'
import type { LazyInstallation } from './installation.ts'

/** Triggers of migrations/0019_retention.ts. */
const triggerCount = 11

export const retentionChecks = (installation: LazyInstallation): Check[] => [
  { id: 'retention', about: 'retention, holds and WORM: enforced by the database', run: () => checkRetention(installation) },
]

async function checkRetention(installation: LazyInstallation): Promise<CheckResult> {
  const { db } = await requireCurrentSchema(installation)
  const { worm } = installation.loaded.config.documents
  const { rows } = await sql<{ triggers: number; is_owner: boolean }>`
    select (select count(*) from pg_trigger where tgname in ('dms_retain', 'dms_retain_all', 'dms_fixed') and tgenabled = 'O'
        and tgrelid in (select oid from pg_class where relnamespace = current_schema()::regnamespace)) as triggers,
      (select pg_has_role(relowner, 'member') from pg_class where oid = to_regclass('documents')) as is_owner`.execute(db)
  const { triggers = 0, is_owner = false } = rows[0] ?? {}
  if (triggers < triggerCount)
    return fail(
      `${triggers} of ${triggerCount} triggers that refuse the deletion of retained documents are enabled`,
      'as the owner of the tables: alter table … enable trigger all; missing ones: restore a backup into an empty database',
    )
  const { rows: counts } = await sql<{ count: number }>`select count(*) from (${retainedIds}) retained`.execute(db)
  const text = `WORM is ${worm ? 'on: only maintenance destroys documents' : 'off'}; documents under retention or hold: ${counts[0]?.count ?? 0}`
  return worm && is_owner
    ? warn(
        `${text}; the role of the application owns the tables and could disable the triggers`,
        'set database.migration_url to another role, which owns the tables',
      )
    : ok(text)
}
