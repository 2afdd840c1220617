import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { usage } from '../src/cli/exit.ts'
import { manual } from '../src/cli/manual.ts'
import { parseDuration } from '../src/config-values.ts'

interface Flags {
  ifNeeded?: boolean
  lockTimeout?: string
}

export const searchReindex = (cli: Cli): Command =>
  manual('reindex', {
    summary: 'Write every document to the search index anew, while searches go on. Runs on the server only.',
    examples: [
      ['search reindex', ''],
      ['search reindex --if-needed', 'nothing where the index is whole; safe in every start script'],
      ['search reindex --progress json', 'for a program that watches'],
    ],
    exits: '0 done, or nothing to do · 69 database unreachable · 75 another reindex is going on',
  })
    .option('--if-needed', 'only where documents are missing or were indexed by another version of dms')
    .option('--lock-timeout <duration>', 'wait this long for another reindex to end', '0s')
    .action(async ({ ifNeeded = false, lockTimeout = '0s' }: Flags) => {
      const started = performance.now()
      const wait = milliseconds(lockTimeout)
      const app = await cli.app('search reindex', { statementTimeout: false })
      const { reindex } = await import('../src/search/search.ts')
      const progress = cli.progress('search reindex')
      const { documents, skipped } = await reindex(app, {
        ifNeeded,
        lockTimeout: wait,
        signal: cli.signal,
        onProgress: (done, total) => progress.update({ done, total }),
      })
      progress.done()
      const duration_seconds = Math.round(performance.now() - started) / 1000
      cli.print(
        { type: 'summary', command: 'search reindex', engine: app.search.name, documents, skipped, duration_seconds },
        {
          columns: ['engine', 'documents', 'skipped', 'duration_seconds'].map((name) => ({ name })),
          sentence: skipped
            ? `nothing to do: all ${documents} documents are in the index`
            : `indexed ${documents} documents in ${duration_seconds.toFixed(1)} s`,
        },
      )
    })

function milliseconds(text: string): number {
  try {
    return parseDuration(text)
  } catch (error) {
    throw usage(`--lock-timeout ${text} ${(error as Error).message}`)
  }
}
