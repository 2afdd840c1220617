import { manual } from '../src/cli/output/manual.ts'
import { columnsOf } from '../src/cli/output/output.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { exitOf, Failure } from '../src/cli/runtime/exit.ts'
import { dms } from '../src/log/fix.ts'

const timeoutMs = 3000

interface Health {
  readonly status: string
  readonly url: string
  /** Status by part, with --ready. */
  readonly checks?: Readonly<Record<string, string>>
}

export const healthcheck = (cli: Cli) =>
  manual('healthcheck', {
    summary: 'Check that a server answers: exit 0 or 1',
    examples: [
      ['healthcheck -q', 'for Docker and load balancers'],
      ['healthcheck --ready', 'also database, schema and storage'],
      ['healthcheck --url https://dms.example.org', ''],
    ],
    exits: '0 running (with --ready: able to serve) · 1 not running, or no answer within 3 s',
  })
    .option('--ready', 'check readiness: database, schema and storage')
    .action(async ({ ready }: { ready?: boolean }) => {
      if (cli.options.printCurl) {
        const { health } = await cli.client()
        await (ready ? health.ready() : health.probe())
      }
      try {
        const health = await probe(cli, ready === true)
        if (!cli.options.isQuiet) cli.print(health, { columns: columnsOf(['status', 'url', 'checks']), id: 'status' })
        if (!['ok', 'degraded'].includes(health.status)) cli.exit = 'FAILED'
      } catch (error) {
        // Docker and load balancers know only 0 and 1.
        cli.exit = 'FAILED'
        if (cli.options.isQuiet) return
        const isElsewhere = exitOf(error) === 'UNAVAILABLE' && cli.target.url === null
        const fix = isElsewhere ? [dms`healthcheck --url http://127.0.0.1:PORT`, ', if the server was started with --port'] : undefined
        throw new Failure('FAILED', causeOf(error), { fix })
      }
    })

async function probe(cli: Cli, isReady: boolean): Promise<Health> {
  const { fetchText, openLocalEndpoint, openRemoteEndpoint } = await import('../src/cli/remote/loopback-server.ts')
  const { url, caFile } = cli.target
  const place = url === null ? openLocalEndpoint((await cli.config()).config.server) : await openRemoteEndpoint(url, caFile)
  cli.onEnd(() => place.dispatcher.destroy())
  const { status, body } = await fetchText(place, isReady ? '/readyz' : '/healthz', timeoutMs)
  if (!isReady) return { status: status === 200 ? 'ok' : `HTTP ${status}`, url: place.url }
  try {
    return { url: place.url, ...(JSON.parse(body) as Pick<Health, 'status' | 'checks'>) }
  } catch {
    return { status: `HTTP ${status}`, url: place.url }
  }
}

function causeOf(error: unknown): string {
  const { message, errors } = error as { message?: string; errors?: Error[] }
  return message || errors?.[0]?.message || String(error)
}
