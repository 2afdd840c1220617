import { type FileHandle, open } from 'node:fs/promises'
import type { CheckName, Finding } from '../src/check/check.ts'
import { parseDurationFlag } from '../src/cli/arguments/flag-values.ts'
import { startFindings } from '../src/cli/output/findings.ts'
import { manual } from '../src/cli/output/manual.ts'
import { columnsOf } from '../src/cli/output/output.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { unusablePath, usage } from '../src/cli/runtime/exit.ts'
import { exitOfAbort } from '../src/cli/runtime/run-batch.ts'
import { escapeControls } from '../src/log/escape.ts'

const columns = [
  ...columnsOf(['severity', 'check', 'document_id', 'sha256', 'message', 'repaired']),
  ...columnsOf(['version', 'path', 'expected', 'actual'], { show: 'wide' }),
]

export const check = (cli: Cli) =>
  manual('check', {
    summary: 'Check tables, stored files and search index',
    examples: [
      ['check', 'everything; reads the bytes of 1% of the stored files'],
      ['check --sample 100%', 'reads every byte'],
      ['check --checks checksums --sample 10% -q', 'weekly, from cron'],
      ['check --repair', 'also repairs what can be rebuilt'],
    ],
    exits: '0 no findings · 3 findings (repaired or not) · 8 --timeout passed · 69 database unreachable · 75 another check is running',
    notes: [
      'Runs on the server only, also while the server is running.',
      'Checks: files, checksums, orphans, references, versions, status, queue, links, index.',
      '--repair queues documents again, rebuilds the index, records missing versions, and moves files that no version has to .quarantine in the store. It never deletes a document, a version or a file. Restore lost files from a backup.',
    ],
  })
    .option('--sample <share>', 'stored files to read in full: a percentage or a number', '1%')
    .option('--checks <names>', 'run only these checks, separated by commas')
    .option('--repair', 'repair what can be rebuilt')
    .option('--rejects <file>', 'also write the findings to this file, as JSON Lines')
    .option('--lock-timeout <duration>', 'time to wait for another check', '0s')
    .action(async (flags: { sample: string; checks?: string; repair?: boolean; rejects?: string; lockTimeout: string }) => {
      const lockTimeout = parseDurationFlag('--lock-timeout', flags.lockTimeout)
      const [{ check, checks }, { runAudited }, app] = await Promise.all([
        import('../src/check/check.ts'),
        import('../src/cli/remote/local-client.ts'),
        cli.app('check', { hasStatementTimeout: false }),
      ])
      const sample = await parseSample(flags.sample, app)
      const only = parseChecks(flags.checks, Object.keys(checks) as CheckName[])
      const rejects = flags.rejects === undefined ? null : await openRejects(flags.rejects)
      const findings = startFindings<Finding>(cli, 'check', columns, formatFinding)
      const progress = cli.progress('check')
      let written = Promise.resolve()
      const counts = { findings: 0, repaired: 0 }
      const add = (finding: Finding) => {
        findings.add(finding)
        counts.findings++
        if (finding.repaired !== null) counts.repaired++
        if (!rejects) return
        const line = `${JSON.stringify({ type: 'finding', ...finding })}\n`
        written = written.then(() => rejects.appendFile(line))
        // The command fails after the check: a full disk must not break off a repair.
        written.catch(() => {})
      }
      const onProgress = (done: number) => progress.update({ done })
      let hasStarted = false
      const onStart = async () => {
        hasStarted = true
        // A pipe cannot be truncated.
        if ((await rejects?.stat())?.isFile()) await rejects?.truncate()
      }
      const options = { only, repair: flags.repair === true, lockTimeout, sample, signal: cli.signal, onProgress, onStart }
      // After a signal the findings so far are printed.
      try {
        const work = () => check(app, options, add)
        await (options.repair ? runAudited(app, cli, { action: 'dms check --repair', counts: () => counts }, work) : work())
      } catch (error) {
        if (!cli.signal.aborted || !hasStarted) throw error
      } finally {
        await written.finally(() => rejects?.close())
      }
      if (cli.signal.aborted) cli.exit = exitOfAbort(cli.signal)
      progress.done()
      findings.finish({ checks: only })
    })

/** Opens the file without changing its content: it may belong to a check that is running. Throws Failure USAGE for a path that cannot be written. */
const openRejects = (path: string): Promise<FileHandle> =>
  open(path, 'a', 0o600).catch((error) => {
    throw unusablePath('--rejects', path, error)
  })

const formatFinding = ({ severity, check, document_id, sha256, message, repaired }: Finding): string =>
  `${severity === 'error' ? 'FAIL' : 'warn'}  ${check.padEnd(10)}  ${escapeControls(`${document_id ?? sha256 ?? ''} ${message}`.trim())}${repaired === null ? '' : `: ${escapeControls(repaired)}`}`

function parseChecks(list: string | undefined, all: readonly CheckName[]): CheckName[] {
  const names = list?.split(',').map((name) => name.trim()) ?? all
  const unknown = names.filter((name) => !all.some((check) => check === name))
  if (unknown.length > 0) throw usage(`--checks: unknown check ${unknown.join(', ')}; checks: ${all.join(', ')}`)
  return all.filter((check) => names.includes(check))
}

/** Returns the share of stored files (0 to 1) for --sample, a percentage or a number of files. */
async function parseSample(sample: string, app: Awaited<ReturnType<Cli['app']>>): Promise<number> {
  const [, number, percent] = /^(\d+(?:\.\d+)?)(%)?$/.exec(sample) ?? []
  const value = Number(number)
  if (number === undefined || (percent && value > 100))
    throw usage(`--sample ${sample} is neither a percentage such as 10% nor a number of files`)
  if (percent) return value / 100
  const { count } = await app.db
    .selectFrom('stored_files')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count === 0 ? 1 : Math.min(1, value / count)
}
