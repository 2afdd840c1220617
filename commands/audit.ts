import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { auditExport } from './audit-export.ts'
import { auditList } from './audit-list.ts'
import { auditVerify } from './audit-verify.ts'

/** `dms audit`: who did what, when and from where. */
export const audit = (cli: Cli): Command =>
  group('audit', 'Audit log: who did what, when and from where.', [auditList(cli), auditExport(cli), auditVerify(cli)])
