/** Checks the optional programs that read further types. */
import { sql } from 'kysely'
import { findConverters } from '../extract/converters/find-converters.ts'
import { type Check, ok, warn } from './doctor.ts'
import type { LazyInstallation } from './installation.ts'

export const converterCheck = (installation: LazyInstallation): Check => ({
  id: 'converters',
  about: 'optional programs that read further types',
  async run() {
    const { db } = await installation.app()
    const { rows } = await sql<{ package: string; documents: number }>`
      select warning ->> 'package' as package, count(distinct id)::int as documents
      from live_documents, jsonb_array_elements(warnings) warning
      where warnings <> '[]' and warning ->> 'code' = 'program_missing' group by 1 order by 2 desc, 1`.execute(db)
    const found = Object.keys(findConverters(installation.loaded.config.ocr.converters)).join(' ')
    if (rows[0] === undefined) return ok(found || 'none')
    const counts = rows.map(({ package: name, documents }) => `${documents} for ${name}`).join(', ')
    const retry = 'dms documents list --warning program_missing --all -o id | xargs -r dms documents retry-ocr'
    return warn(`documents without text for lack of a program: ${counts}`, `apt install ${rows[0].package}, restart dms, then ${retry}`)
  },
})
