import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { pluralize } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { escapeControls } from '../../src/log/escape.ts'

export const configCheck = (cli: Cli): Command =>
  manual('check', {
    summary: 'Check the configuration',
    examples: [
      ['config check', 'configuration file and environment variables'],
      ['config check --file new.toml --strict', 'before you install a new file'],
    ],
    exits: '0 valid · 78 errors found (with --strict: or warnings)',
    notes: ['Lists all errors and warnings, not only the first one.'],
  })
    .option('--file <file>', 'check this file instead of the current one')
    .option('--strict', 'treat warnings as errors')
    .action(async ({ file, strict }: { file?: string; strict?: boolean }) => {
      const { inspectConfig } = await import('../../src/config/load.ts')
      const sources = cli.configSources()
      const { problems, warnings, file: checked } = inspectConfig({ ...sources, file: file ?? sources.file })
      const rows = [
        ...problems.map((message) => ({ severity: 'error', message })),
        ...warnings.map((message) => ({ severity: 'warning', message })),
      ]
      const lines = rows.map(({ severity, message }) => `${severity}: ${escapeControls(message)}`)
      const verdict =
        rows.length > 0
          ? `${pluralize(problems.length, 'error')}, ${pluralize(warnings.length, 'warning')}`
          : `✓ ${checked ?? 'no configuration file; defaults and environment variables'}: valid`
      cli.print(rows, { columns: [{ name: 'severity' }, { name: 'message' }], id: 'message', sentence: [...lines, verdict] })
      if (problems.length > 0 || (strict && warnings.length > 0)) cli.exit = 'CONFIG'
    })
