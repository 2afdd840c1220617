import { readFile } from 'node:fs/promises'
import { Option } from 'commander'
import { parseCount, parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { parseWhen } from '../../src/cli/arguments/time-span.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { columnsOf } from '../../src/cli/output/output.ts'
import { buildSummary } from '../../src/cli/output/result-stream.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { unusablePath, usage } from '../../src/cli/runtime/exit.ts'
import { isId } from '../../src/id.ts'

interface Flags {
  ifNeeded?: boolean
  since?: string
  ids: string[]
  idsFrom?: string
  inPlace?: boolean
  keepOld?: boolean
  wait: boolean
  dryRun?: boolean
  batchSize?: string
  lockTimeout: string
}

/** Options that update some documents in the current index. */
const partial = ['since', 'ids', 'idsFrom']
const notQueueable = [...partial, 'inPlace', 'keepOld', 'dryRun', 'batchSize', 'lockTimeout']

const collectIds = (value: string, before: string[]): string[] => [...before, ...value.split(',')]

export const reindex = (cli: Cli) =>
  manual('reindex', {
    summary: 'Rebuild the search index without downtime',
    examples: [
      ['search reindex', ''],
      ['search reindex --if-needed', 'only if the index is incomplete; safe in start scripts'],
      ['search reindex --since 2026-03-01', 'updates documents changed since then'],
      ['search reindex --ids 0198a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b', 'updates some documents'],
      ['search reindex --no-wait -o id', 'queues a job for a worker and prints its id'],
      ['search reindex --progress json', 'progress for a program'],
    ],
    notes: [
      'Runs on the server only. Builds a new index while the current one answers, then swaps them.',
      'An interrupted run keeps the current index. The next run removes the unfinished one.',
    ],
    exits:
      '0 done, or nothing to do · 2 bad flag · 3 some documents could not be indexed · 69 database or search unreachable · 75 another reindex is running',
  })
    .addOption(new Option('--if-needed', 'only if documents are missing or were indexed by another version').conflicts(partial))
    .option('--since <when>', 'update documents changed since this time (7d, yesterday, 2026-11-20) in the current index')
    .addOption(
      new Option('--ids <id>', 'update these documents in the current index; comma-separated, repeatable')
        .argParser(collectIds)
        .default([])
        .conflicts('since'),
    )
    .addOption(new Option('--ids-from <file>', 'read ids from a file, one per line').conflicts('since'))
    .option('--in-place', 'write to the current index; needs no space for a second one')
    .addOption(new Option('--keep-old', 'keep the old index until the next reindex (Meilisearch only)').conflicts([...partial, 'inPlace']))
    .addOption(new Option('--no-wait', 'queue a job for a worker and print its id').conflicts(notQueueable))
    .option('-n, --dry-run', 'print the number of documents only')
    .option('--batch-size <n>', 'documents per batch (default: search.batch_size)')
    .option('--lock-timeout <duration>', 'time to wait for another reindex', '0s')
    .action(async (flags: Flags) => {
      const started = new Date()
      const options = await parseOptions(flags)
      if (!flags.wait) return enqueue(cli, flags)
      const app = await cli.app('search reindex', { hasStatementTimeout: false })
      const [{ reindex }, { runAudited }] = await Promise.all([
        import('../../src/search/reindex.ts'),
        import('../../src/cli/remote/local-client.ts'),
      ])
      const progress = cli.progress('search reindex')
      let indexed = 0
      const onProgress = (done: number, total: number): void => {
        indexed = done
        progress.update({ done, total })
      }
      const work = () => reindex(app, { ...options, signal: cli.signal, onProgress })
      const entry = { action: 'dms search reindex', counts: () => ({ documents: indexed }) }
      const { documents, skipped, swapped, kept, omitted } = await (options.dryRun ? work() : runAudited(app, cli, entry, work))
      progress.done()
      if (omitted > 0) cli.exit = 'PARTIAL'
      const { index } = await app.search.status()
      const fields = { engine: app.search.name, index, documents, failed: omitted, skipped, swapped, kept, dry_run: options.dryRun }
      const summary = buildSummary(cli, 'search reindex', fields, started)
      let sentence = `indexed ${documents} documents in ${summary.duration_seconds.toFixed(1)} s`
      if (skipped) sentence = `nothing to do: all ${documents} documents are indexed`
      else if (options.dryRun) sentence = `would index ${documents} documents`
      else if (kept !== undefined) sentence += `; the old index is kept as ${kept}`
      if (omitted > 0) sentence += `; ${omitted} could not be indexed`
      const columns = columnsOf(['engine', 'documents', 'skipped', 'swapped', 'duration_seconds', 'dry_run'])
      cli.print(summary, { columns, sentence })
    })

async function enqueue(cli: Cli, { ifNeeded = false }: Flags): Promise<void> {
  const app = await cli.app('search reindex')
  const [{ queueReindex }, { auditCommand }] = await Promise.all([
    import('../../src/search/reindex.ts'),
    import('../../src/cli/remote/local-client.ts'),
  ])
  const jobId = await queueReindex(app, { anew: !ifNeeded })
  await auditCommand(app, cli, { action: 'dms search reindex', target: `job_id=${jobId}` })
  cli.print([{ job_id: jobId }], {
    columns: [{ name: 'job_id', title: 'JOB' }],
    id: 'job_id',
    isQuery: false,
  })
}

const readIdFile = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch((error: Error) => {
    throw unusablePath('--ids-from', path, error)
  })

/** Throws Failure USAGE. */
async function parseOptions(flags: Flags) {
  const { ifNeeded = false, since, ids, idsFrom, inPlace = false, keepOld = false, dryRun = false, batchSize, lockTimeout } = flags
  const listed = idsFrom === undefined ? [] : (await readIdFile(idsFrom)).split(/\s+/).filter((id) => id !== '')
  const all = [...ids, ...listed].map((id) => id.trim().toLowerCase())
  const invalid = all.find((id) => !isId(id))
  if (invalid !== undefined) throw usage(`--ids: "${invalid}" is not an id`)
  return {
    ifNeeded,
    inPlace,
    keepOld,
    dryRun,
    lockTimeout: parseDurationFlag('--lock-timeout', lockTimeout),
    ids: ids.length > 0 || idsFrom !== undefined ? all : undefined,
    since: since === undefined ? undefined : new Date(parseWhen('--since', since)),
    batchSize: batchSize === undefined ? undefined : parseCount('--batch-size', batchSize, { max: 10_000 }),
  }
}
