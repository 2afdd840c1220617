import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { auditExport } from './export.ts'
import { auditList } from './list.ts'
import { auditVerify } from './verify.ts'

export const audit = (cli: Cli): Command =>
  group('audit', 'List, export and verify the audit log', [auditList(cli), auditExport(cli), auditVerify(cli)])
