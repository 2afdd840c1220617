import { manual } from '../src/cli/output/manual.ts'
import { columnsOf, pluralize, wrapText } from '../src/cli/output/output.ts'
import { listSettings } from '../src/cli/output/setting-rows.ts'
import { rejectLocalFlags } from '../src/cli/remote/target.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { unusablePath, usage } from '../src/cli/runtime/exit.ts'
import type { Check, Diagnosis } from '../src/doctor/doctor.ts'
import type { LazyInstallation } from '../src/doctor/installation.ts'
import { escapeControls } from '../src/log/escape.ts'

interface Flags {
  only?: string
  skip?: string
  list?: boolean
  fix?: boolean
  strict?: boolean
  bundle?: string
}

export const doctor = (cli: Cli) =>
  manual('doctor', {
    summary: 'Diagnose an installation and suggest fixes',
    examples: [
      ['doctor', 'this installation'],
      ['doctor --url https://dms.example.org', 'a remote server, as its clients see it'],
      ['doctor --only database,schema --json', 'for a script'],
      ['doctor --bundle report.tar.gz', 'for a bug report: versions, settings without secrets, causes of failures'],
    ],
    exits: '0 no check failed · 3 a check failed (with --strict: or warned)',
    notes: ['--fix restricts the mode of readable secrets and queues abandoned jobs again. It changes nothing else.'],
  })
    .option('--only <ids>', 'run only these checks, separated by commas')
    .option('--skip <ids>', 'skip these checks, separated by commas')
    .option('--list', 'list the checks and exit')
    .option('--fix', 'apply the safe fixes')
    .option('--strict', 'treat warnings as failures')
    .option('--bundle <file>', 'write a .tar.gz for a bug report')
    .action(async (flags: Flags) => {
      const { url } = cli.target
      if (cli.options.printCurl) throw usage('doctor cannot use --print-curl: it checks more than HTTP answers')
      const installation = url === null ? await openLocalInstallation(cli) : null
      const all = installation ? await loadLocalChecks(installation) : await loadRemoteChecks(cli, url ?? '')
      const checks = selectChecks(all, flags)
      if (flags.list)
        return cli.print(
          checks.map(({ id, about }) => ({ id, about })),
          { columns: columnsOf(['id', 'about']) },
        )
      if (flags.bundle !== undefined && !installation) throw usage('--bundle works on the server only')
      const { runChecks } = await import('../src/doctor/doctor.ts')
      const diagnoses: Diagnosis[] = []
      const onDiagnosis = (diagnosis: Diagnosis): void => {
        diagnoses.push(diagnosis)
        const lines = formatDiagnosis(diagnosis, cli.options.width)
        const isProblem = diagnosis.status === 'fail' || diagnosis.status === 'warn'
        if (cli.options.isSilent) for (const line of isProblem ? lines : []) cli.warn(line)
        else if (cli.options.isHuman) cli.write(`${lines.join('\n')}\n`)
      }
      await runChecks(checks, { canFix: flags.fix === true, formatFix: cli.options.formatFix, onDiagnosis })
      if (installation) await auditFixes(cli, installation, diagnoses)
      const count = (status: Diagnosis['status']) => diagnoses.filter((diagnosis) => diagnosis.status === status).length
      if (count('fail') > 0 || (flags.strict && count('warn') > 0)) cli.exit = 'PARTIAL'
      printDiagnoses(cli, diagnoses, `${count('ok')} ok, ${pluralize(count('warn'), 'warning')}, ${count('fail')} failed`)
      if (flags.bundle === undefined || !installation) return
      const { writeBundle } = await import('../src/doctor/bundle.ts')
      const { bundle } = flags
      await writeBundle(bundle, installation, diagnoses, listSettings(installation.loaded)).catch((error: Error) => {
        throw unusablePath('--bundle', bundle, error)
      })
      cli.note(`✓ Wrote ${bundle}`)
    })

/** Writes the fixes of --fix to the audit log. */
async function auditFixes(cli: Cli, installation: LazyInstallation, diagnoses: readonly Diagnosis[]): Promise<void> {
  const fixed = diagnoses.flatMap(({ id, fixed }) => (fixed === null ? [] : [[id, fixed]]))
  if (fixed.length === 0) return
  const { auditCommand } = await import('../src/cli/remote/local-client.ts')
  const write = async () =>
    auditCommand(await installation.database(), cli, { action: 'dms doctor --fix', details: Object.fromEntries(fixed) })
  await write().catch((error: Error) => cli.warn(`warning: not in the audit log: ${error.message}`))
}

async function openLocalInstallation(cli: Cli): Promise<LazyInstallation> {
  const [{ inspectConfig }, { openCommandLog }, { openLazyInstallation }] = await Promise.all([
    import('../src/config/load.ts'),
    import('../src/cli/remote/local-client.ts'),
    import('../src/doctor/installation.ts'),
  ])
  const loaded = inspectConfig(cli.configSources())
  await cli.actAsOwner(loaded.config)
  const installation = openLazyInstallation(loaded, await openCommandLog(loaded, cli.options))
  cli.onEnd(() => installation.close())
  return installation
}

async function loadLocalChecks(installation: LazyInstallation): Promise<Check[]> {
  const [{ machineChecks }, { databaseChecks }, { storeChecks }, { retentionChecks }] = await Promise.all([
    import('../src/doctor/machine.ts'),
    import('../src/doctor/database.ts'),
    import('../src/doctor/store.ts'),
    import('../src/doctor/retention.ts'),
  ])
  return [...machineChecks(installation), ...databaseChecks(installation), ...storeChecks(installation), ...retentionChecks(installation)]
}

async function loadRemoteChecks(cli: Cli, url: string): Promise<Check[]> {
  rejectLocalFlags(cli.options, url)
  const [{ remoteChecks }, { openAnonymousClient }] = await Promise.all([
    import('../src/doctor/remote.ts'),
    import('../src/cli/remote/remote-client.ts'),
  ])
  let client: ReturnType<typeof openAnonymousClient> | undefined
  const openAnonymous = async () => {
    // Without retries: the current answer is what doctor checks.
    client ??= openAnonymousClient({ ...cli.target, url }, { ...cli.connectOptions, pause: undefined })
    return client
  }
  cli.onEnd(async () => (await client?.catch(() => null))?.close())
  return remoteChecks(url, openAnonymous, () => cli.client())
}

function selectChecks(checks: readonly Check[], { only, skip }: Flags): Check[] {
  const ids = checks.map(({ id }) => id)
  const parseIds = (flag: string, list: string | undefined) => {
    const selected = list?.split(',').map((id) => id.trim()) ?? null
    const unknown = selected?.filter((id) => !ids.includes(id)) ?? []
    if (unknown.length > 0) throw usage(`${flag}: unknown check ${unknown.join(', ')}; checks: ${ids.join(', ')}`)
    return selected
  }
  const [included, skipped] = [parseIds('--only', only), parseIds('--skip', skip)]
  return checks.filter(({ id }) => (included === null || included.includes(id)) && !skipped?.includes(id))
}

const statusLabels = { ok: 'ok  ', warn: 'warn', fail: 'FAIL', skip: 'skip' } as const

/** Width of the columns before the message. */
const indent = 19

/** Formats one check. The fix stays on one line, because users copy it. */
function formatDiagnosis({ id, status, message, fix, fixed }: Diagnosis, width: number): string[] {
  const lines = [wrapText(`${statusLabels[status]}  ${id.padEnd(11)}  ${escapeControls(message)}`, width, indent)]
  if (fixed !== null) lines.push(wrapText(`${' '.repeat(indent)}fixed: ${escapeControls(fixed)}`, width, indent))
  else if (fix !== undefined) lines.push(`${' '.repeat(indent)}fix: ${escapeControls(fix)}`)
  return lines.flatMap((line) => line.split('\n'))
}

function printDiagnoses(cli: Cli, diagnoses: readonly Diagnosis[], verdict: string): void {
  const columns = columnsOf(['status', 'id', 'message', 'fix', 'fixed'])
  if (cli.options.isSilent) return
  if (cli.options.isHuman) cli.write(`${verdict}\n`)
  else if (cli.options.format === 'json') {
    const status = ['fail', 'warn'].find((status) => diagnoses.some((one) => one.status === status)) ?? 'ok'
    cli.print({ status, checks: diagnoses }, { columns: [] })
  } else cli.print(diagnoses, { columns })
}
